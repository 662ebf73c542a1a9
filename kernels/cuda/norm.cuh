// A norm over the last dimension, its gradient, and both with a sum: add_<norm> normalises the sum of a and b and gives
// the sum too; add_<norm>_grad adds another gradient of x to dx. A type `Norm` is the mathematics of a row:
//
//   kParameters   gamma, and beta if there is one; the gradient sums as many terms over the rows
//   kStatistics   the numbers of each row that the gradient needs again
//   Row, GradRow  a team computes y and the statistics of a row; dx of a row; kLanes neighbours at once
//   TermsOf       what elements add to the gradients of the parameters
#pragma once

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {

template <typename F, int kCount>
struct Floats {
  F* of[kCount];
};

// f(i) for the packs of kLanes elements of a row of c that are this thread's; i is the first element.
template <int kLanes, int kTeam, typename F>
__device__ void ForOwnPacks(const Team<kTeam>& team, int64_t c, F f) {
  for (int64_t i = team.member() * kLanes; i < c; i += kTeam * kLanes) f(i);
}

// The rows that a norm takes: those of x, or of the sum of a and b as it was rounded. The sum may lie in either
// operand's memory, since a thread reads again only what it wrote itself.
template <typename T>
struct NormRows {
  const T* x = nullptr;  // or a
  const T* b = nullptr;  // null: there is no sum
  T* sum = nullptr;

  // Elements i, i + 1, ..., before the same thread asks for them again.
  template <int kLanes>
  __device__ void First(int64_t i, float (&v)[kLanes]) const {
    ReadPack(x + i, v);
    if (b == nullptr) return;
    float other[kLanes];
    ReadPack(b + i, other);
    for (int k = 0; k < kLanes; ++k) v[k] = Widen(Narrow<T>(v[k] + other[k]));
    WritePack(sum + i, v);
  }
  template <int kLanes>
  __device__ void Again(int64_t i, float (&v)[kLanes]) const {
    ReadPack((b == nullptr ? x : sum) + i, v);
  }
};

template <typename Norm, typename T>
struct NormOperands {
  NormRows<T> x;
  Floats<const float, Norm::kParameters> parameters;
  T* y;
  Floats<float, Norm::kStatistics> statistics;
};

template <typename Norm, int kTeam, int kLanes, typename T>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, NormOperands<Norm, T> all) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    Norm::template Row<kTeam, kLanes>(team, row, c, epsilon, all);
  }
}

// Columns up to which a warp takes a row: 8 packs of a lane, or 32 elements.
template <int kLanes>
inline constexpr int64_t kWarpOfPacks = kLanes == 1 ? kWarpColumns : kWarp* kLanes * 8;

template <typename Norm, int kLanes, typename T>
const char* LaunchNorm(const KernelArgs& args, const NormOperands<Norm, T>& all) {
  return LaunchRows<kWarpOfPacks<kLanes>>(args, Rows(args.in[0]), Columns(args.in[0]),
                                          NormKernel<Norm, kWarp, kLanes, T>, NormKernel<Norm, kThreads, kLanes, T>,
                                          static_cast<float>(args.attrs->Double("epsilon", 1e-5)), all);
}

// in: x and the parameters; out: y and the statistics. With a sum, a and b in x's place, and x before the outputs.
template <typename Norm, typename T, bool kAdd>
const char* RunNorm(const KernelArgs& args) {
  NormOperands<Norm, T> all = {.x = {args.in[0].as<const T>()}, .y = args.out[kAdd].as<T>()};
  if (kAdd) all.x = {args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<T>()};
  for (int i = 0; i < Norm::kParameters; ++i) all.parameters.of[i] = args.in[kAdd + 1 + i].as<const float>();
  for (int i = 0; i < Norm::kStatistics; ++i) all.statistics.of[i] = args.out[kAdd + 1 + i].as<float>();
  constexpr int kLanes = kPackLanes<T>;
  const float* const last_parameter = all.parameters.of[Norm::kParameters - 1];
  const bool packs =
      CanPack<kLanes>(Columns(args.in[0]), {all.x.x, all.x.b, all.x.sum, all.y, all.parameters.of[0], last_parameter});
  return packs ? LaunchNorm<Norm, kLanes>(args, all) : LaunchNorm<Norm, 1>(args, all);
}

template <typename Norm, typename T>
struct NormGradOperands {
  // dx[i, i + 1, ...] = v, and what it is added to.
  template <int kLanes>
  __device__ void Write(int64_t i, float (&v)[kLanes]) const {
    if (other != nullptr) {
      float more[kLanes];
      ReadPack(other + i, more);
      for (int k = 0; k < kLanes; ++k) v[k] += more[k];
    }
    WritePack(dx + i, v);
  }

  const T* other;  // null: zeros
  const T *dy, *x;
  const float* gamma;
  Floats<const float, Norm::kStatistics> statistics;
  T* dx;
};

// f(i, g, h) for this thread's packs of the row that starts at element `begin`: g = dy * gamma, and h = normal(x), the
// row without its mean and scale.
template <int kLanes, int kTeam, typename Norm, typename T, typename Normal, typename F>
__device__ void ForGradPacks(const Team<kTeam>& team, int64_t begin, int64_t c, const NormGradOperands<Norm, T>& all,
                             Normal normal, F f) {
  ForOwnPacks<kLanes>(team, c, [&](int64_t i) {
    float g[kLanes], h[kLanes], gamma[kLanes];
    ReadPack(all.dy + begin + i, g);
    ReadPack(all.x + begin + i, h);
    ReadPack(all.gamma + i, gamma);
    for (int k = 0; k < kLanes; ++k) {
      g[k] *= gamma[k];
      h[k] = normal(h[k]);
    }
    f(i, g, h);
  });
}

template <typename Norm, int kTeam, int kLanes, typename T>
__global__ void NormGradKernel(int64_t rows, int64_t c, NormGradOperands<Norm, T> all) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    Norm::template GradRow<kTeam, kLanes>(team, row, c, all);
  }
}

template <typename Norm, int kLanes, typename T>
const char* LaunchNormGrad(const KernelArgs& args, int64_t rows, int64_t c, const NormGradOperands<Norm, T>& all) {
  return LaunchRows<kWarpOfPacks<kLanes>>(args, rows, c, NormGradKernel<Norm, kWarp, kLanes, T>,
                                          NormGradKernel<Norm, kThreads, kLanes, T>, all);
}

// What elements add to the gradients of the parameters.
template <typename Norm, typename T>
struct NormTerms {
  template <int kLanes>
  __device__ void operator()(int64_t row, int64_t, int64_t i, float (&terms)[Norm::kParameters][kLanes]) const {
    float dy[kLanes], x[kLanes];
    ReadPack(all.dy + i, dy);
    ReadPack(all.x + i, x);
    Norm::TermsOf(row, all, dy, x, terms);
  }
  NormGradOperands<Norm, T> all;
};

// in: dy, x, gamma and the statistics, before them what dx is added to; out: dx and the gradients of the parameters.
template <typename Norm, typename T, bool kAdd>
const char* RunNormGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = Rows(args.in[0]);
  if (c == 0) return nullptr;
  NormGradOperands<Norm, T> all = {.other = kAdd ? args.in[0].as<const T>() : nullptr,
                                   .dy = args.in[kAdd].as<const T>(),
                                   .x = args.in[kAdd + 1].as<const T>(),
                                   .gamma = args.in[kAdd + 2].as<const float>(),
                                   .dx = args.out[0].as<T>()};
  for (int i = 0; i < Norm::kStatistics; ++i) all.statistics.of[i] = args.in[kAdd + 3 + i].as<const float>();
  constexpr int kLanes = kPackLanes<T>;
  const bool packs = CanPack<kLanes>(c, {all.other, all.dy, all.x, all.gamma, all.dx});
  if (const char* error =
          packs ? LaunchNormGrad<Norm, kLanes>(args, rows, c, all) : LaunchNormGrad<Norm, 1>(args, rows, c, all)) {
    return error;
  }
  SumPointers<Norm::kParameters> sums;
  for (int i = 0; i < Norm::kParameters; ++i) sums.sum[i] = args.out[1 + i].as<float>();
  return ColumnSums<Norm::kParameters, T>(Stream(args), rows, c, {all.dy, all.x}, NormTerms<Norm, T>{all},
                                          args.workspace, sums);
}

template <typename Norm>
size_t NormGradWorkspace(const KernelArgs& args) {
  return ColumnSumsBytes<Norm::kParameters>(Rows(args.in[0]), Columns(args.in[0]));
}

template <typename Norm, bool kAdd>
struct NormOps {
  template <typename T>
  static const char* Run(const KernelArgs& args) {
    return RunNorm<Norm, T, kAdd>(args);
  }
  template <typename T>
  static const char* RunGrad(const KernelArgs& args) {
    return RunNormGrad<Norm, T, kAdd>(args);
  }
};

// The kernels of the four ops.
template <typename Norm>
KernelList NormKernels(const char* norm, const char* grad, const char* add_norm, const char* add_grad) {
  using Plain = NormOps<Norm, false>;
  using Added = NormOps<Norm, true>;
  return {OF_FLOAT_KERNELS(norm, Plain::template Run), OF_FLOAT_KERNELS(add_norm, Added::template Run),
          OF_FLOAT_KERNELS(grad, Plain::template RunGrad, NormGradWorkspace<Norm>),
          OF_FLOAT_KERNELS(add_grad, Added::template RunGrad, NormGradWorkspace<Norm>)};
}

}  // namespace oneflow::cuda
