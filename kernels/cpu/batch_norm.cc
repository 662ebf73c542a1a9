// The parts of a batch norm, in which dimension 1 counts channels: channel_mean, channel_variance, batch_norm, and its
// gradient's batch_norm_sums and batch_norm_dx. Numbers of channels are f32, whatever x is.
//
//   h = (x - mean) rstd     dgamma = sum dy h,  dbeta = sum dy     dx = gamma rstd (dy - dbeta / N - h dgamma / N)
//
// Fused: channel_statistics is both statistics, batch_norm_relu and batch_norm_add_relu are what often follows, and in
// batch_norm_relu_sums and batch_norm_relu_dx dy is the gradient of that ReLU's output. Where that is 0 they compute
// again, rather than read it.
//
// A tensor is [outer, channels, inner]. With an inner dimension a vector holds elements of one channel, without one it
// holds those of neighbouring channels, and so it does in blocks of channels, [outer, channels/16, inner, 16]; kernels
// are written once for all, because they ask for a channel's numbers through `of`. Sums of a channel are one thread's,
// and are carried in double between runs of floats.
#include <algorithm>

#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

struct ChannelSides {
  explicit ChannelSides(const TensorArg& x)
      : outer(x.dims[0]), channels(x.dims[1]), inner(Product(x, 2, x.rank)), in_blocks(x.in_blocks()) {}
  // In blocks: from a block to the next, and where the elements of a channel begin in those of a sample.
  int64_t block() const { return inner * kBlockChannels; }
  int64_t FirstInBlocks(int64_t channel) const { return channel / kBlockChannels * block() + channel % kBlockChannels; }
  int64_t outer, channels, inner;
  bool in_blocks;
};

// Elements that share a mean, of the whole tensor and not of this shard.
double LogicalCount(const TensorArg& x) {
  double count = 1;
  for (int d = 0; d < x.rank; ++d) count *= d == 1 ? 1.0 : static_cast<double>(x.logical_dims[d]);
  return count;
}

// The numbers that belong to a vector's lanes: those of one channel, or of a channel and its neighbours.
struct OneChannel {
  int64_t channel;
  OF_INLINE F32s operator()(const float* p) const { return Splat(p[channel]); }
};
template <typename Lanes>
struct ChannelPerLane {
  int64_t first;
  Lanes lanes;
  OF_INLINE F32s operator()(const float* p) const { return Load(p + first, lanes); }
};

// f(prepare(of), at, lanes) for all vectors of the tensor; `operands` is how many tensors of its size f touches.
template <typename Prepare, typename F>
void ForEachVector(const ChannelSides& s, int64_t operands, Prepare prepare, F f) {
  const int64_t bytes = operands * static_cast<int64_t>(sizeof(float));
  if (s.in_blocks) {
    const int64_t blocks = s.channels / kBlockChannels;
    ParallelFor(s.outer * blocks, Grain(bytes * s.block()), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t lane = 0; lane < kBlockChannels; lane += kLanes) {
          const auto numbers = prepare(ChannelPerLane<AllLanes>{row % blocks * kBlockChannels + lane, {}});
          for (int64_t at = row * s.block() + lane; at < (row + 1) * s.block(); at += kBlockChannels) {
            f(numbers, at, AllLanes{});
          }
        }
      }
    });
    return;
  }
  if (s.inner == 1) {
    ParallelFor(s.outer, Grain(bytes * s.channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        VecLoop(s.channels, [&](int64_t i, auto lanes) {
          f(prepare(ChannelPerLane<decltype(lanes)>{i, lanes}), row * s.channels + i, lanes);
        });
      }
    });
    return;
  }
  ParallelFor(s.outer * s.channels, Grain(bytes * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto numbers = prepare(OneChannel{row % s.channels});
      VecLoop(s.inner, [&](int64_t i, auto lanes) { f(numbers, row * s.inner + i, lanes); });
    }
  });
}

// Elements, or rows, that are added up in float before they go to the double.
constexpr int64_t kRun = 1024;
constexpr int64_t kRowsOfRun = 64;
// Sums of pixels in blocks that grow side by side, so that none waits for the addition before.
constexpr int64_t kPixelsAtOnce = 4;

// As SumPerChannel, for the channels of a vector in blocks.
template <int kSums, typename Prepare, typename Add>
void SumInBlocks(const ChannelSides& s, double scale, float* const (&sums)[kSums], int64_t first, Prepare prepare,
                 Add add) {
  const auto numbers = prepare(ChannelPerLane<AllLanes>{first, {}});
  double total[kSums][kLanes] = {};
  for (int64_t sample = 0; sample < s.outer; ++sample) {
    const int64_t begin = sample * s.channels * s.inner + s.FirstInBlocks(first);
    for (int64_t pixel = 0; pixel < s.inner;) {
      F32s terms[kPixelsAtOnce][kSums] = {};
      const int64_t stop = std::min(s.inner, pixel + kRowsOfRun);
      for (; pixel + kPixelsAtOnce <= stop; pixel += kPixelsAtOnce) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < kPixelsAtOnce; ++i)
          add(numbers, begin + (pixel + i) * kBlockChannels, AllLanes{}, terms[i]);
      }
      for (; pixel < stop; ++pixel) add(numbers, begin + pixel * kBlockChannels, AllLanes{}, terms[0]);
      for (int k = 0; k < kSums; ++k) {
        const F32s sum = (terms[0][k] + terms[1][k]) + (terms[2][k] + terms[3][k]);
        for (int lane = 0; lane < kLanes; ++lane) total[k][lane] += static_cast<double>(sum[lane]);
      }
    }
  }
  for (int k = 0; k < kSums; ++k) {
    for (int lane = 0; lane < kLanes; ++lane) sums[k][first + lane] = static_cast<float>(scale * total[k][lane]);
  }
}

// sums[k][channel] = scale * sum of what add(prepare(of), at, lanes, terms) adds to terms[k]; lanes beyond the count
// must add 0.
template <int kSums, typename Prepare, typename Add>
void SumPerChannel(const ChannelSides& s, double scale, float* const (&sums)[kSums], Prepare prepare, Add add) {
  const int64_t bytes = kSums * static_cast<int64_t>(sizeof(float));
  if (s.in_blocks) {
    ParallelFor(s.channels / kLanes, Grain(bytes * s.outer * s.inner * kLanes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) SumInBlocks(s, scale, sums, i * kLanes, prepare, add);
    });
    return;
  }
  if (s.inner == 1) {
    ParallelFor((s.channels + kLanes - 1) / kLanes, Grain(bytes * s.outer * kLanes), [&](int64_t begin, int64_t end) {
      VecLoop(std::min(s.channels, end * kLanes) - begin * kLanes, [&](int64_t i, auto lanes) {
        const int64_t first = begin * kLanes + i;
        const auto numbers = prepare(ChannelPerLane<decltype(lanes)>{first, lanes});
        double total[kSums][kLanes] = {};
        for (int64_t row = 0; row < s.outer;) {
          F32s terms[kSums] = {};
          for (const int64_t stop = std::min(s.outer, row + kRowsOfRun); row < stop; ++row) {
            add(numbers, row * s.channels + first, lanes, terms);
          }
          for (int k = 0; k < kSums; ++k) {
            for (int lane = 0; lane < kLanes; ++lane) total[k][lane] += static_cast<double>(terms[k][lane]);
          }
        }
        for (int k = 0; k < kSums; ++k) {
          for (int64_t lane = 0; lane < std::min(kLanes, s.channels - first); ++lane) {
            sums[k][first + lane] = static_cast<float>(scale * total[k][lane]);
          }
        }
      });
    });
    return;
  }
  ParallelFor(s.channels, Grain(bytes * s.outer * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      const auto numbers = prepare(OneChannel{channel});
      double total[kSums] = {};
      for (int64_t row = channel; row < s.outer * s.channels; row += s.channels) {
        for (int64_t run = 0; run < s.inner; run += kRun) {
          F32s terms[kSums] = {};
          VecLoop(std::min(kRun, s.inner - run),
                  [&](int64_t i, auto lanes) { add(numbers, row * s.inner + run + i, lanes, terms); });
          for (int k = 0; k < kSums; ++k) total[k] += static_cast<double>(Sum(terms[k]));
        }
      }
      for (int k = 0; k < kSums; ++k) sums[k][channel] = static_cast<float>(scale * total[k]);
    }
  });
}

float Epsilon(const KernelArgs& args) { return static_cast<float>(args.attrs->Double("epsilon", 1e-5)); }

template <typename T>
const char* ChannelMean(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  SumPerChannel(
      ChannelSides(args.in[0]), 1 / LogicalCount(args.in[0]), {args.out[0].as<float>()},
      [](auto) OF_INLINED { return 0; },
      [=](int, int64_t at, auto lanes, F32s(&terms)[1]) OF_INLINED { terms[0] += Load(x + at, lanes); });
  return nullptr;
}

// in: x, mean.
template <typename T>
const char* ChannelVariance(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const mean = args.in[1].as<const float>();
  SumPerChannel(
      ChannelSides(args.in[0]), 1 / LogicalCount(args.in[0]), {args.out[0].as<float>()},
      [=](auto of) OF_INLINED { return of(mean); },
      [=](F32s center, int64_t at, auto lanes, F32s(&terms)[1]) OF_INLINED {
        const F32s d = Keep(Load(x + at, lanes) - center, lanes);
        terms[0] += d * d;
      });
  return nullptr;
}

// Of a channel's elements their sum and that of their squares.
struct Moments {
  // Of `count` more elements the sum, and that of the squares of their distances from `center`, near their mean.
  void Add(double count, double of_run, double center, double squared_distances) {
    sum += of_run;
    squares += squared_distances + center * (2 * of_run - count * center);
  }
  void Store(double count, float* mean, float* var) const {
    *mean = static_cast<float>(sum / count);
    *var = static_cast<float>(std::max(0.0, (squares - sum * (sum / count)) / count));
  }
  double sum = 0, squares = 0;
};

// Adds to each lane's moments a run of `rows` vectors, `stride` elements apart. It is read twice, the second time from
// the cache.
template <typename T, typename Lanes>
OF_INLINE void AddRun(const T* x, int64_t rows, int64_t stride, Lanes lanes, Moments (&moments)[kLanes]) {
  F32s sums[kPixelsAtOnce] = {}, squares[kPixelsAtOnce] = {};
  const auto for_rows = [&](auto f) OF_INLINED {
    int64_t row = 0;
    for (; row + kPixelsAtOnce <= rows; row += kPixelsAtOnce) {
#pragma GCC unroll 4
      for (int64_t i = 0; i < kPixelsAtOnce; ++i) f(Load(x + (row + i) * stride, lanes), i);
    }
    for (; row < rows; ++row) f(Load(x + row * stride, lanes), 0);
  };
  for_rows([&](F32s v, int64_t i) OF_INLINED { sums[i] += v; });
  const F32s sum = (sums[0] + sums[1]) + (sums[2] + sums[3]), center = sum / static_cast<float>(rows);
  for_rows([&](F32s v, int64_t i) OF_INLINED { squares[i] += (v - center) * (v - center); });
  const F32s square = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    moments[lane].Add(static_cast<double>(rows), static_cast<double>(sum[lane]), static_cast<double>(center[lane]),
                      static_cast<double>(square[lane]));
  }
}

// The same of a run of one channel's `n` elements side by side.
template <typename T>
void AddRun(const T* x, int64_t n, Moments& moments) {
  F32s sums = {}, squares = {};
  VecLoop(n, [&](int64_t i, auto lanes) { sums += Load(x + i, lanes); });
  const float sum = Sum(sums), center = sum / static_cast<float>(n);
  VecLoop(n, [&](int64_t i, auto lanes) {
    const F32s d = Keep(Load(x + i, lanes) - center, lanes);
    squares += d * d;
  });
  moments.Add(static_cast<double>(n), static_cast<double>(sum), static_cast<double>(center),
              static_cast<double>(Sum(squares)));
}

// Both statistics of the channels of a vector, from `first` on.
template <typename T, typename Lanes>
void StatisticsOfVector(const ChannelSides& s, const T* x, double count, int64_t first, Lanes lanes, float* mean,
                        float* var) {
  Moments moments[kLanes];
  if (s.in_blocks) {
    for (int64_t sample = 0; sample < s.outer; ++sample) {
      const T* const pixels = x + sample * s.channels * s.inner + s.FirstInBlocks(first);
      for (int64_t pixel = 0; pixel < s.inner; pixel += kRowsOfRun) {
        AddRun(pixels + pixel * kBlockChannels, std::min(kRowsOfRun, s.inner - pixel), kBlockChannels, lanes, moments);
      }
    }
  } else {
    for (int64_t row = 0; row < s.outer; row += kRowsOfRun) {
      AddRun(x + row * s.channels + first, std::min(kRowsOfRun, s.outer - row), s.channels, lanes, moments);
    }
  }
  for (int64_t lane = 0; lane < std::min(kLanes, s.channels - first); ++lane) {
    moments[lane].Store(count, mean + first + lane, var + first + lane);
  }
}

// channel_mean and channel_variance in one pass over memory; in: x; out: mean, var.
template <typename T>
const char* ChannelStatistics(const KernelArgs& args) {
  const ChannelSides s(args.in[0]);
  const T* const x = args.in[0].as<const T>();
  const double count = LogicalCount(args.in[0]);
  float *const mean = args.out[0].as<float>(), *const var = args.out[1].as<float>();
  const int64_t bytes = static_cast<int64_t>(sizeof(T)) * s.outer * s.inner;
  if (s.in_blocks || s.inner == 1) {
    ParallelFor((s.channels + kLanes - 1) / kLanes, Grain(bytes * kLanes), [&](int64_t begin, int64_t end) {
      VecLoop(std::min(s.channels, end * kLanes) - begin * kLanes,
              [&](int64_t i, auto lanes) { StatisticsOfVector(s, x, count, begin * kLanes + i, lanes, mean, var); });
    });
    return nullptr;
  }
  ParallelFor(s.channels, Grain(bytes), [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      Moments moments;
      for (int64_t row = channel; row < s.outer * s.channels; row += s.channels) {
        for (int64_t run = 0; run < s.inner; run += kRun) {
          AddRun(x + row * s.inner + run, std::min(kRun, s.inner - run), moments);
        }
      }
      moments.Store(count, mean + channel, var + channel);
    }
  });
  return nullptr;
}

// What batch_norm makes of an element.
struct Norm {
  F32s mean, scale, shift;
  OF_INLINE F32s operator()(F32s x) const { return (x - mean) * scale + shift; }
};
struct Norms {
  const float *gamma, *beta, *mean, *var;
  float epsilon;
  // gamma, beta, mean and var are the inputs from `first` on.
  Norms(const KernelArgs& args, int first) : epsilon(Epsilon(args)) {
    for (const float** numbers : {&gamma, &beta, &mean, &var}) *numbers = args.in[first++].as<const float>();
  }
  template <typename Of>
  OF_INLINE Norm operator()(Of of) const {
    return {of(mean), of(gamma) / Sqrt(of(var) + epsilon), of(beta)};
  }
};

// y = finish(batch_norm(x), at, lanes); in: x, gamma, beta, mean, var. `operands` is how many tensors of x's size that
// touches.
template <typename T, typename Finish>
const char* Normalize(const KernelArgs& args, int64_t operands, Finish finish) {
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  ForEachVector(
      ChannelSides(args.in[0]), operands, [norms = Norms(args, 1)](auto of) OF_INLINED { return norms(of); },
      [=](const Norm& norm, int64_t at, auto lanes)
          OF_INLINED { Store(y + at, finish(norm(Load(x + at, lanes)), at, lanes), lanes); });
  return nullptr;
}

template <typename T>
const char* BatchNorm(const KernelArgs& args) {
  return Normalize<T>(args, 2, [](F32s y, int64_t, auto) OF_INLINED { return y; });
}
template <typename T>
const char* BatchNormRelu(const KernelArgs& args) {
  return Normalize<T>(args, 2, [](F32s y, int64_t, auto) OF_INLINED { return ReluOf(y); });
}
// in: x, gamma, beta, mean, var, r.
template <typename T>
const char* BatchNormAddRelu(const KernelArgs& args) {
  const T* const r = args.in[5].as<const T>();
  return Normalize<T>(args, 3,
                      [=](F32s y, int64_t at, auto lanes) OF_INLINED { return ReluOf(y + Load(r + at, lanes)); });
}

// The gradient of a norm's output as it comes, and as it comes through a ReLU behind the norm.
struct Direct {
  struct Numbers {};
  template <typename Of>
  OF_INLINE Numbers operator()(Of) const {
    return {};
  }
  static OF_INLINE F32s Pass(const Numbers&, F32s, F32s dy) { return dy; }
};
struct ThroughRelu {
  using Numbers = Norm;
  Norms norms;
  template <typename Of>
  OF_INLINE Norm operator()(Of of) const {
    return norms(of);
  }
  static OF_INLINE F32s Pass(const Norm& norm, F32s x, F32s dy) { return ReluGradOf(dy, norm(x)); }
};

// in: dy, x; out: dgamma, dbeta.
template <typename T, typename Way>
const char* Sums(const KernelArgs& args, const float* mean, const float* var, Way way) {
  const T *const dy = args.in[0].as<const T>(), *const x = args.in[1].as<const T>();
  const float epsilon = Epsilon(args);
  struct Numbers {
    F32s mean, rstd;
    typename Way::Numbers of_way;
  };
  SumPerChannel(
      ChannelSides(args.in[0]), 1, {args.out[0].as<float>(), args.out[1].as<float>()},
      [=](auto of) OF_INLINED {
        return Numbers{of(mean), 1.0f / Sqrt(of(var) + epsilon), way(of)};
      },
      [=](const Numbers& c, int64_t at, auto lanes, F32s(&terms)[2]) OF_INLINED {
        const F32s v = Load(x + at, lanes), d = Way::Pass(c.of_way, v, Load(dy + at, lanes));  // 0 beyond the count
        terms[0] += d * ((v - c.mean) * c.rstd);
        terms[1] += d;
      });
  return nullptr;
}

// in: dy, x, mean, var.
template <typename T>
const char* BatchNormSums(const KernelArgs& args) {
  return Sums<T>(args, args.in[2].as<const float>(), args.in[3].as<const float>(), Direct());
}
// in: dy, x, gamma, beta, mean, var.
template <typename T>
const char* BatchNormReluSums(const KernelArgs& args) {
  const Norms norms(args, 2);
  return Sums<T>(args, norms.mean, norms.var, ThroughRelu{norms});
}

struct GradientInputs {
  const float *gamma, *mean, *var, *dgamma, *dbeta;
};

// in: dy, x; out: dx.
template <typename T, typename Way>
const char* Dx(const KernelArgs& args, const GradientInputs& in, Way way) {
  const T *const dy = args.in[0].as<const T>(), *const x = args.in[1].as<const T>();
  T* const dx = args.out[0].as<T>();
  const float epsilon = Epsilon(args), share = static_cast<float>(1 / LogicalCount(args.in[1]));
  struct Numbers {
    F32s mean, scale, mean_dy, slope;  // slope: of the term that is linear in x - mean
    typename Way::Numbers of_way;
  };
  ForEachVector(
      ChannelSides(args.in[0]), 3,
      [=](auto of) OF_INLINED {
        const F32s rstd = 1.0f / Sqrt(of(in.var) + epsilon);
        return Numbers{of(in.mean), of(in.gamma) * rstd, of(in.dbeta) * share, of(in.dgamma) * share * rstd, way(of)};
      },
      [=](const Numbers& c, int64_t at, auto lanes) OF_INLINED {
        const F32s v = Load(x + at, lanes), d = Way::Pass(c.of_way, v, Load(dy + at, lanes));
        Store(dx + at, c.scale * (d - c.mean_dy - (v - c.mean) * c.slope), lanes);
      });
  return nullptr;
}

// in: dy, x, gamma, mean, var, dgamma, dbeta.
template <typename T>
const char* BatchNormDx(const KernelArgs& args) {
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  return Dx<T>(args, {input(2), input(3), input(4), input(5), input(6)}, Direct());
}
// in: dy, x, gamma, beta, mean, var, dgamma, dbeta.
template <typename T>
const char* BatchNormReluDx(const KernelArgs& args) {
  const auto input = [&](int i) { return args.in[i].as<const float>(); };
  return Dx<T>(args, {input(2), input(4), input(5), input(6), input(7)}, ThroughRelu{Norms(args, 2)});
}

}  // namespace

KernelList BatchNormKernels() {
  return {OF_FLOAT_KERNELS("channel_mean", ChannelMean),
          OF_FLOAT_KERNELS("channel_variance", ChannelVariance),
          OF_FLOAT_KERNELS("batch_norm", BatchNorm),
          OF_FLOAT_KERNELS("batch_norm_sums", BatchNormSums),
          OF_FLOAT_KERNELS("batch_norm_dx", BatchNormDx),
          OF_FLOAT_KERNELS("channel_statistics", ChannelStatistics),
          OF_FLOAT_KERNELS("batch_norm_relu", BatchNormRelu),
          OF_FLOAT_KERNELS("batch_norm_add_relu", BatchNormAddRelu),
          OF_FLOAT_KERNELS("batch_norm_relu_sums", BatchNormReluSums),
          OF_FLOAT_KERNELS("batch_norm_relu_dx", BatchNormReluDx)};
}

}  // namespace oneflow::cpu
