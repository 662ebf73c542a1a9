// The parts of a batch norm, in which dimension 1 counts channels: channel_mean, channel_variance, batch_norm, and its
// gradient's batch_norm_sums and batch_norm_dx. Numbers of channels are f32, whatever x is.
//
//   h = (x - mean) rstd     dgamma = sum dy h,  dbeta = sum dy     dx = gamma rstd (dy - dbeta / N - h dgamma / N)
//
// A tensor is [outer, channels, inner]. Sums of a channel are cut into splits, carried in pairs of floats, and the
// splits are summed in order. With an inner dimension a block takes a split of one channel; without one it takes 32
// neighbouring channels, so that its threads read neighbours in both cases.
#include <algorithm>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

struct Sides {
  explicit Sides(const TensorArg& x) : outer(x.dims[0]), channels(x.dims[1]), inner(Product(x, 2, x.rank)) {}
  int64_t outer, channels, inner;
};

// Elements that share a mean, of the whole tensor and not of this shard.
double LogicalCount(const TensorArg& x) {
  double count = 1;
  for (int d = 0; d < x.rank; ++d) count *= d == 1 ? 1.0 : static_cast<double>(x.logical_dims[d]);
  return count;
}

// f(i, its channel) for all elements.
template <typename F>
const char* ForEachElement(const KernelArgs& args, F f) {
  const Sides s(args.in[0]);
  return ForEach(Stream(args), {s.outer, s.channels, s.inner},
                 [=] __device__(int64_t i, int64_t, int64_t channel, int64_t) { f(i, channel); });
}

// How sums are cut. `tasks` are the channels, or strips of 32 of them, of the first split, then those of the others.
template <typename Index>
struct Cut {
  int64_t count, terms, terms_of_split;
  Divisor<Index> tasks, inner;
};

// Partial sums are partial[split][which sum][channel]; add(at, channel, totals) adds the terms of an element.
template <int kSums, typename Index, typename Add>
__global__ void BlockPerChannel(Sides s, Cut<Index> cut, Add add, FloatPair* partial) {
  for (int64_t task = blockIdx.x; task < cut.count; task += gridDim.x) {
    const auto [split, channel] = cut.tasks.Divide(static_cast<Index>(task));
    const int64_t begin = split * cut.terms_of_split;
    const int64_t end = begin + cut.terms_of_split < cut.terms ? begin + cut.terms_of_split : cut.terms;
    FloatPair totals[kSums] = {};
    for (int64_t term = begin + threadIdx.x; term < end; term += kThreads) {
      const auto [row, at] = cut.inner.Divide(static_cast<Index>(term));
      add((row * s.channels + channel) * s.inner + at, channel, totals);
    }
    for (int k = 0; k < kSums; ++k) {
      const FloatPair total = Reduce<kThreads>(totals[k], SumOf());
      if (threadIdx.x == 0) partial[(split * kSums + k) * s.channels + channel] = total;
    }
  }
}

constexpr int kRowsAtATime = kThreads / kWarp;  // rows that a block reads at a time, 32 channels of each

template <int kSums, typename Index, typename Add>
__global__ void BlockPerColumns(Sides s, Cut<Index> cut, Add add, FloatPair* partial) {
  __shared__ FloatPair lines[kSums][kRowsAtATime][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < cut.count; task += gridDim.x) {
    const auto [split, strip] = cut.tasks.Divide(static_cast<Index>(task));
    const int64_t channel = static_cast<int64_t>(strip) * kWarp + lane, begin = split * cut.terms_of_split;
    const int64_t end = begin + cut.terms_of_split < cut.terms ? begin + cut.terms_of_split : cut.terms;
    FloatPair totals[kSums] = {};
    for (int64_t row = begin + line; row < end && channel < s.channels; row += kRowsAtATime) {
      add(row * s.channels + channel, channel, totals);
    }
    __syncthreads();  // the last task's sums are read
    for (int k = 0; k < kSums; ++k) lines[k][line][lane] = totals[k];
    __syncthreads();
    if (line < kSums && channel < s.channels) {
      FloatPair total = {};
      for (int i = 0; i < kRowsAtATime; ++i) total = total + lines[line][i][lane];
      partial[(split * kSums + line) * s.channels + channel] = total;
    }
  }
}

int64_t TasksOfASplit(const Sides& s) { return s.inner == 1 ? (s.channels + kWarp - 1) / kWarp : s.channels; }

// Enough splits for the GPU, none too small to be worth its share of the second pass.
int64_t Splits(const Sides& s) {
  const int64_t wanted = kMaxBlocks / std::max<int64_t>(1, TasksOfASplit(s));
  const int64_t useful = s.inner == 1 ? s.outer / 64 : s.outer * s.inner / 4096;
  return std::max<int64_t>(1, std::min(wanted, useful));
}

template <int kSums>
size_t Workspace(const KernelArgs& args) {
  const Sides s(args.in[0]);
  return static_cast<size_t>(Splits(s) * kSums * s.channels) * sizeof(FloatPair);
}

// out[k][channel] = scale * sum k.
template <int kSums, typename Add>
const char* SumPerChannel(const KernelArgs& args, double scale, Add add) {
  static_assert(kSums == 1 || kSums == 2);
  const Sides s(args.in[0]);
  if (s.channels == 0) return nullptr;
  const int64_t splits = Splits(s), channels = s.channels, tasks = TasksOfASplit(s), terms = s.outer * s.inner;
  FloatPair* const partial = static_cast<FloatPair*>(args.workspace);
  const char* const error = WithIndex(std::max(tasks * splits, terms), [&](auto index) {
    using Index = decltype(index);
    const Cut<Index> cut = {tasks * splits, terms, (terms + splits - 1) / splits, Divisor<Index>(tasks),
                            Divisor<Index>(s.inner)};
    return Launch({Stream(args), Blocks(cut.count, 1)},
                  s.inner == 1 ? BlockPerColumns<kSums, Index, Add> : BlockPerChannel<kSums, Index, Add>, s, cut, add,
                  partial);
  });
  if (error != nullptr) return error;
  float* const first = args.out[0].as<float>();
  float* const last = args.out[kSums - 1].as<float>();
  return ForEach(Stream(args), {kSums, channels}, [=] __device__(int64_t i, int64_t sum, int64_t channel) {
    FloatPair total = {};
    for (int64_t split = 0; split < splits; ++split) total = total + partial[split * kSums * channels + i];
    (sum == 0 ? first : last)[channel] = static_cast<float>(scale * total.Value());
  });
}

float Epsilon(const KernelArgs& args) { return static_cast<float>(args.attrs->Double("epsilon", 1e-5)); }

template <typename T>
const char* ChannelMean(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  return SumPerChannel<1>(args, 1 / LogicalCount(args.in[0]),
                          [=] __device__(int64_t at, int64_t, FloatPair totals[]) { totals[0].Add(Widen(x[at])); });
}

// in: x, mean.
template <typename T>
const char* ChannelVariance(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const mean = args.in[1].as<const float>();
  return SumPerChannel<1>(args, 1 / LogicalCount(args.in[0]),
                          [=] __device__(int64_t at, int64_t channel, FloatPair totals[]) {
                            totals[0].AddSquare(Widen(x[at]) - mean[channel]);
                          });
}

// in: x, gamma, beta, mean, var.
template <typename T>
const char* BatchNorm(const KernelArgs& args) {
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const float *const gamma = input(1), *const beta = input(2), *const mean = input(3), *const var = input(4);
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  const float epsilon = Epsilon(args);
  return ForEachElement(args, [=] __device__(int64_t i, int64_t c) {
    y[i] = Narrow<T>((Widen(x[i]) - mean[c]) * (gamma[c] / sqrtf(var[c] + epsilon)) + beta[c]);
  });
}

// in: dy, x, mean, var; out: dgamma, dbeta.
template <typename T>
const char* BatchNormSums(const KernelArgs& args) {
  const T *const dy = args.in[0].as<const T>(), *const x = args.in[1].as<const T>();
  const float *const mean = args.in[2].as<const float>(), *const var = args.in[3].as<const float>();
  const float epsilon = Epsilon(args);
  return SumPerChannel<2>(args, 1, [=] __device__(int64_t at, int64_t channel, FloatPair totals[]) {
    totals[0].Add(Widen(dy[at]) * ((Widen(x[at]) - mean[channel]) / sqrtf(var[channel] + epsilon)));
    totals[1].Add(Widen(dy[at]));
  });
}

// in: dy, x, gamma, mean, var, dgamma, dbeta.
template <typename T>
const char* BatchNormDx(const KernelArgs& args) {
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const float *const gamma = input(2), *const mean = input(3), *const var = input(4), *const dgamma = input(5),
                     *const dbeta = input(6);
  const T *const dy = args.in[0].as<const T>(), *const x = args.in[1].as<const T>();
  T* const dx = args.out[0].as<T>();
  const float epsilon = Epsilon(args), share = static_cast<float>(1 / LogicalCount(args.in[1]));
  return ForEachElement(args, [=] __device__(int64_t i, int64_t c) {
    const float rstd = 1.0f / sqrtf(var[c] + epsilon);
    const float h = (Widen(x[i]) - mean[c]) * rstd;
    dx[i] = Narrow<T>(gamma[c] * rstd * (Widen(dy[i]) - dbeta[c] * share - h * (dgamma[c] * share)));
  });
}

}  // namespace

KernelList BatchNormKernels() {
  return {OF_FLOAT_KERNELS("channel_mean", ChannelMean, Workspace<1>),
          OF_FLOAT_KERNELS("channel_variance", ChannelVariance, Workspace<1>),
          OF_FLOAT_KERNELS("batch_norm", BatchNorm), OF_FLOAT_KERNELS("batch_norm_sums", BatchNormSums, Workspace<2>),
          OF_FLOAT_KERNELS("batch_norm_dx", BatchNormDx)};
}

}  // namespace oneflow::cuda
