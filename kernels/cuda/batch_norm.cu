// The parts of a batch norm, in which dimension 1 counts channels: channel_mean, channel_variance, batch_norm, and its
// gradient's batch_norm_sums and batch_norm_dx. Numbers of channels are f32, whatever x is.
//
//   h = (x - mean) rstd     dgamma = sum dy h,  dbeta = sum dy     dx = gamma rstd (dy - dbeta / N - h dgamma / N)
//
// Fused: channel_statistics is both statistics of one pass, batch_norm_relu and batch_norm_add_relu are what often
// follows, and batch_norm_relu_sums and _dx compute again where the ReLU was 0.
//
// A tensor is [outer, channels, inner]. Sums of a channel are cut into splits, carried in pairs of floats, and the
// splits are summed in order. With an inner dimension a block takes a split of one channel; without one it takes 32
// neighbouring channels, so that its threads read neighbours in both cases.
#include <algorithm>

#include "kernels/cuda/float_functions.cuh"
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

template <int kSums>
struct Totals {
  double of[kSums];
};

// give(channel, totals) for every channel, which has to write them.
template <int kSums, typename Add, typename Give>
const char* SumPerChannel(const KernelArgs& args, Add add, Give give) {
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
  return ForEach(Stream(args), channels, [=] __device__(int64_t channel) {
    Totals<kSums> totals;
    for (int k = 0; k < kSums; ++k) {
      FloatPair total = {};
      for (int64_t split = 0; split < splits; ++split)
        total = total + partial[(split * kSums + k) * channels + channel];
      totals.of[k] = total.Value();
    }
    give(channel, totals);
  });
}

// The mean of what `add` adds up, of all elements of the logical tensor.
template <typename Add>
const char* MeanPerChannel(const KernelArgs& args, Add add) {
  const double share = 1 / LogicalCount(args.in[0]);
  float* const mean = args.out[0].as<float>();
  return SumPerChannel<1>(args, add, [=] __device__(int64_t channel, const Totals<1>& totals) {
    mean[channel] = static_cast<float>(share * totals.of[0]);
  });
}

float Epsilon(const KernelArgs& args) { return static_cast<float>(args.attrs->Double("epsilon", 1e-5)); }

template <typename T>
const char* ChannelMean(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  return MeanPerChannel(args, [=] __device__(int64_t at, int64_t, FloatPair totals[]) { totals[0].Add(Widen(x[at])); });
}

// in: x, mean.
template <typename T>
const char* ChannelVariance(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const mean = args.in[1].as<const float>();
  return MeanPerChannel(args, [=] __device__(int64_t at, int64_t channel, FloatPair totals[]) {
    totals[0].AddSquare(Widen(x[at]) - mean[channel]);
  });
}

// out: mean, var. Sums of squares cancel where a channel is far from 0, but pairs of floats have digits for that: up to
// a mean of ten thousand deviations the variance is one of floats.
template <typename T>
const char* ChannelStatistics(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const double share = 1 / LogicalCount(args.in[0]);
  float *const mean = args.out[0].as<float>(), *const var = args.out[1].as<float>();
  return SumPerChannel<2>(
      args,
      [=] __device__(int64_t at, int64_t, FloatPair totals[]) {
        totals[0].Add(Widen(x[at]));
        totals[1].AddSquare(Widen(x[at]));
      },
      [=] __device__(int64_t channel, const Totals<2>& totals) {
        const double center = share * totals.of[0], spread = share * totals.of[1] - center * center;
        mean[channel] = static_cast<float>(center);
        var[channel] = static_cast<float>(spread < 0 ? 0.0 : spread);  // NaN stays
      });
}

// gamma, beta, mean, var of the channels.
struct Norm {
  const float *gamma, *beta, *mean, *var;
  float epsilon;

  // The first of them is input `at`.
  static Norm Of(const KernelArgs& args, int at) {
    const auto input = [&](int i) { return args.in[i].as<const float>(); };
    return {input(at), input(at + 1), input(at + 2), input(at + 3), Epsilon(args)};
  }
  // Rounded alike wherever it is computed: what is 0 forward is 0 backward.
  __device__ float Normalized(float x, int64_t c) const {
    return fmaf(x - mean[c], gamma[c] / sqrtf(var[c] + epsilon), beta[c]);
  }
};

struct Same {
  __device__ float operator()(float y, int64_t) const { return y; }
};

// y = then(norm of x, i); in: x, gamma, beta, mean, var.
template <typename T, typename Then>
const char* NormThen(const KernelArgs& args, Then then) {
  const Norm norm = Norm::Of(args, 1);
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  return ForEachElement(
      args, [=] __device__(int64_t i, int64_t c) { y[i] = Narrow<T>(then(norm.Normalized(Widen(x[i]), c), i)); });
}
template <typename T>
const char* BatchNorm(const KernelArgs& args) {
  return NormThen<T>(args, Same());
}
template <typename T>
const char* BatchNormRelu(const KernelArgs& args) {
  return NormThen<T>(args, [] __device__(float y, int64_t) { return ReluOf(y); });
}
// in: behind the others, r.
template <typename T>
const char* BatchNormAddRelu(const KernelArgs& args) {
  const T* const r = args.in[5].as<const T>();
  return NormThen<T>(args, [r] __device__(float y, int64_t i) { return ReluOf(y + Widen(r[i])); });
}

// What a gradient is made of: dy, or where a ReLU is behind the norm, what that lets pass.
template <typename T, bool kRelu>
struct Passing {
  const T *dy, *x;
  Norm norm;  // of the ReLU

  __device__ float Of(int64_t i, int64_t c) const {
    if constexpr (kRelu) {
      if (norm.Normalized(Widen(x[i]), c) <= 0.0f) return 0;
    }
    return Widen(dy[i]);
  }
};

// in: dy, x, mean, var, before these gamma and beta of a ReLU; out: dgamma, dbeta.
template <typename T, bool kRelu>
const char* Sums(const KernelArgs& args) {
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const Passing<T, kRelu> passing = {args.in[0].as<const T>(), args.in[1].as<const T>(),
                                     kRelu ? Norm::Of(args, 2) : Norm()};
  const float *const mean = input(kRelu ? 4 : 2), *const var = input(kRelu ? 5 : 3);
  const float epsilon = Epsilon(args);
  float *const dgamma = args.out[0].as<float>(), *const dbeta = args.out[1].as<float>();
  return SumPerChannel<2>(
      args,
      [=] __device__(int64_t at, int64_t channel, FloatPair totals[]) {
        const float dy = passing.Of(at, channel);
        totals[0].Add(dy * ((Widen(passing.x[at]) - mean[channel]) / sqrtf(var[channel] + epsilon)));
        totals[1].Add(dy);
      },
      [=] __device__(int64_t channel, const Totals<2>& totals) {
        dgamma[channel] = static_cast<float>(totals.of[0]);
        dbeta[channel] = static_cast<float>(totals.of[1]);
      });
}
template <typename T>
constexpr KernelFn BatchNormSums = Sums<T, /*kRelu=*/false>;
template <typename T>
constexpr KernelFn BatchNormReluSums = Sums<T, /*kRelu=*/true>;

// in: dy, x, gamma, beta of a ReLU, mean, var, dgamma, dbeta.
template <typename T, bool kRelu>
const char* Dx(const KernelArgs& args) {
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  const Passing<T, kRelu> passing = {args.in[0].as<const T>(), args.in[1].as<const T>(),
                                     kRelu ? Norm::Of(args, 2) : Norm()};
  const float* const gamma = input(2);
  const int at = kRelu ? 4 : 3;
  const float *const mean = input(at), *const var = input(at + 1), *const dgamma = input(at + 2),
                     *const dbeta = input(at + 3);
  T* const dx = args.out[0].as<T>();
  const float epsilon = Epsilon(args), share = static_cast<float>(1 / LogicalCount(args.in[1]));
  return ForEachElement(args, [=] __device__(int64_t i, int64_t c) {
    const float rstd = 1.0f / sqrtf(var[c] + epsilon);
    const float h = (Widen(passing.x[i]) - mean[c]) * rstd;
    dx[i] = Narrow<T>(gamma[c] * rstd * (passing.Of(i, c) - dbeta[c] * share - h * (dgamma[c] * share)));
  });
}
template <typename T>
constexpr KernelFn BatchNormDx = Dx<T, /*kRelu=*/false>;
template <typename T>
constexpr KernelFn BatchNormReluDx = Dx<T, /*kRelu=*/true>;

}  // namespace

KernelList BatchNormKernels() {
  return {OF_FLOAT_KERNELS("channel_mean", ChannelMean, Workspace<1>),
          OF_FLOAT_KERNELS("channel_variance", ChannelVariance, Workspace<1>),
          OF_FLOAT_KERNELS("batch_norm", BatchNorm),
          OF_FLOAT_KERNELS("batch_norm_sums", BatchNormSums, Workspace<2>),
          OF_FLOAT_KERNELS("batch_norm_dx", BatchNormDx),
          OF_FLOAT_KERNELS("channel_statistics", ChannelStatistics, Workspace<2>),
          OF_FLOAT_KERNELS("batch_norm_relu", BatchNormRelu),
          OF_FLOAT_KERNELS("batch_norm_add_relu", BatchNormAddRelu),
          OF_FLOAT_KERNELS("batch_norm_relu_sums", BatchNormReluSums, Workspace<2>),
          OF_FLOAT_KERNELS("batch_norm_relu_dx", BatchNormReluDx)};
}

}  // namespace oneflow::cuda
