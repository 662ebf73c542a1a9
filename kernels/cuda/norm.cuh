// A norm over the last dimension, its gradient, and both with a sum: add_<norm> normalises the sum of a and b and gives
// the sum too; add_<norm>_grad adds another gradient of x to dx. A type `Norm` is the mathematics of a row:
//
//   kParameters   gamma, and beta if there is one; the gradient sums as many terms over the rows
//   kStatistics   the numbers of each row that the gradient needs again
//   Row, GradRow  a team computes y and the statistics of a row; dx of a row
//   TermsOf       what an element adds to the gradients of the parameters
#pragma once

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {

template <typename F, int kCount>
struct Floats {
  F* of[kCount];
};

// The rows that a norm takes: those of x, or of the sum of a and b as it was rounded. The sum may lie in either
// operand's memory, since a thread reads again only what it wrote itself.
template <typename T>
struct NormRows {
  const T* x = nullptr;  // or a
  const T* b = nullptr;  // null: there is no sum
  T* sum = nullptr;

  // Element i, before the same thread asks for it as at(i).
  __device__ float First(int64_t i) const {
    if (b == nullptr) return Widen(x[i]);
    const T rounded = Narrow<T>(Widen(x[i]) + Widen(b[i]));
    sum[i] = rounded;
    return Widen(rounded);
  }
  __device__ float at(int64_t i) const { return Widen(b == nullptr ? x[i] : sum[i]); }
};

template <typename Norm, typename T>
struct NormOperands {
  NormRows<T> x;
  Floats<const float, Norm::kParameters> parameters;
  T* y;
  Floats<float, Norm::kStatistics> statistics;
};

template <typename Norm, int kTeam, typename T>
__global__ void NormKernel(int64_t rows, int64_t c, float epsilon, NormOperands<Norm, T> all) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) Norm::Row(team, row, c, epsilon, all);
}

// in: x and the parameters; out: y and the statistics. With a sum, a and b in x's place, and x before the outputs.
template <typename Norm, typename T, bool kAdd>
const char* RunNorm(const KernelArgs& args) {
  NormOperands<Norm, T> all = {.x = {args.in[0].as<const T>()}, .y = args.out[kAdd].as<T>()};
  if (kAdd) all.x = {args.in[0].as<const T>(), args.in[1].as<const T>(), args.out[0].as<T>()};
  for (int i = 0; i < Norm::kParameters; ++i) all.parameters.of[i] = args.in[kAdd + 1 + i].as<const float>();
  for (int i = 0; i < Norm::kStatistics; ++i) all.statistics.of[i] = args.out[kAdd + 1 + i].as<float>();
  return LaunchRows(args, Rows(args.in[0]), Columns(args.in[0]), NormKernel<Norm, kWarp, T>,
                    NormKernel<Norm, kThreads, T>, static_cast<float>(args.attrs->Double("epsilon", 1e-5)), all);
}

template <typename Norm, typename T>
struct NormGradOperands {
  // What dx is added to.
  __device__ float Other(int64_t i) const { return other == nullptr ? 0.0f : Widen(other[i]); }

  const T* other;  // null: zeros
  const T *dy, *x;
  const float* gamma;
  Floats<const float, Norm::kStatistics> statistics;
  T* dx;
};

template <typename Norm, int kTeam, typename T>
__global__ void NormGradKernel(int64_t rows, int64_t c, NormGradOperands<Norm, T> all) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) Norm::GradRow(team, row, c, all);
}

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
  if (const char* error =
          LaunchRows(args, rows, c, NormGradKernel<Norm, kWarp, T>, NormGradKernel<Norm, kThreads, T>, all)) {
    return error;
  }
  SumPointers<Norm::kParameters> sums;
  for (int i = 0; i < Norm::kParameters; ++i) sums.sum[i] = args.out[1 + i].as<float>();
  const auto terms = [=] __device__(int64_t row, int64_t column) { return Norm::TermsOf(row, row * c + column, all); };
  return ColumnSums<Norm::kParameters>(Stream(args), rows, c, terms, args.workspace, sums);
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
