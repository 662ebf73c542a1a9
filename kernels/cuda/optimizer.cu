// The end of a step: the clipping factor, the learning rate, and the updates of weights in one pass over memory each,
// or in none where the step is skipped. Scalars stay on the device: nothing here waits.
#include <cfloat>
#include <cmath>

#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizer_updates.h"
#include "kernels/rate_schedule.h"

namespace oneflow::cuda {
namespace {

// in: the sum of squares of all gradients; out: scale, norm.
const char* ClipScale(const KernelArgs& args) {
  const double max_norm = args.attrs->Double("max_norm");
  const float* const squares = args.in[0].as<const float>();
  float* const scale = args.out[0].as<float>();
  float* const norm = args.out[1].as<float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) {
    const double length = sqrt(static_cast<double>(*squares)), ratio = max_norm / (length + 1e-6);
    *scale = max_norm > 0 && ratio < 1 ? static_cast<float>(ratio) : 1.0f;
    *norm = static_cast<float>(length);
  });
}

// in: the sum of squares of all gradients, the loss' scale; out: squares, scale, skipped.
const char* Unscale(const KernelArgs& args) {
  const float* const s = args.in[0].as<const float>();
  const float* const loss_scale = args.in[1].as<const float>();
  float* const squares = args.out[0].as<float>();
  float* const scale = args.out[1].as<float>();
  float* const skipped = args.out[2].as<float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) {
    const double by = *loss_scale;
    const bool is_good = isfinite(*s);
    *squares = static_cast<float>(*s / (by * by));
    *scale = is_good ? static_cast<float>(1 / by) : NAN;
    *skipped = is_good ? 0.0f : 1.0f;
  });
}

// in: loss_scale, good_steps (both overwritten), scale[].
const char* LossScaleUpdate(const KernelArgs& args) {
  const AttrMap& attrs = *args.attrs;
  const float growth = static_cast<float>(attrs.Double("growth")),
              backoff = static_cast<float>(attrs.Double("backoff"));
  const int64_t interval = attrs.Int("interval");
  float* const loss_scale = args.in[0].as<float>();
  int64_t* const good_steps = args.in[1].as<int64_t>();
  const float* const scale = args.in[2].as<const float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) {
    if (isnan(*scale)) {
      *loss_scale = fmaxf(*loss_scale * backoff, FLT_MIN);
      *good_steps = 0;
    } else if (++*good_steps == interval) {
      const float more = *loss_scale * growth;
      if (isfinite(more)) *loss_scale = more;
      *good_steps = 0;
    }
  });
}

// in: the step, from 0.
const char* LrSchedule(const KernelArgs& args) {
  const RateSchedule schedule(*args.attrs);
  const int64_t* const now = args.in[0].as<const int64_t>();
  float* const rate = args.out[0].as<float>();
  return ForEach(Stream(args), 1,
                 [=] __device__(int64_t) { *rate = static_cast<float>(RateAt(schedule, static_cast<double>(*now))); });
}

// With the logarithms 1 - beta^t is -expm1(t log beta), which floats lose nothing of where beta^t is almost 1.
struct AdamwAttrs {
  float beta1, beta2, rest1, rest2;  // rest: 1 - beta
  float log_beta1, log_beta2, weight_decay, epsilon;
};
// What all tensors of a launch have in common.
struct AdamwStep {
  AdamwAttrs attrs;
  const float *lr, *scale;
  const int64_t* step;
};
struct AdamwTensors {
  float *w, *m, *v;
  const float* g;
  int64_t count;
};

// A launch has 4 KiB of arguments, which hold so many tensors. A block takes a run of a tensor's elements at a time.
constexpr int kTensorsAtOnce = 80;
constexpr int64_t kRun = 16 * kThreads;
struct AdamwBatch {
  int num_tensors = 0;
  int64_t end[kTensorsAtOnce];  // of the tensor's runs, which follow those of the tensors before it
  AdamwTensors tensors[kTensorsAtOnce];
};
static_assert(sizeof(AdamwStep) + sizeof(AdamwBatch) <= 4096);

__global__ void AdamwKernel(AdamwStep common, AdamwBatch batch) {
  // The powers cost a thread more than an element does: one thread of a block computes them.
  __shared__ float keep, rate, inverse_bias2;
  const AdamwAttrs& attrs = common.attrs;
  if (threadIdx.x == 0) {
    const float lr = *common.lr, t = static_cast<float>(*common.step + 1);
    keep = fmaf(-lr, attrs.weight_decay, 1);
    rate = lr / -expm1f(t * attrs.log_beta1);
    inverse_bias2 = 1 / sqrtf(-expm1f(t * attrs.log_beta2));
  }
  __syncthreads();
  const float scale = *common.scale;
  if (isnan(scale)) return;  // skipped
  const auto update = [&](float* w, float* m, float* v, float g) {
    const float gradient = g * scale;
    *m = *m * attrs.beta1 + gradient * attrs.rest1;
    *v = *v * attrs.beta2 + gradient * gradient * attrs.rest2;
    *w = *w * keep - rate * *m / (sqrtf(*v) * inverse_bias2 + attrs.epsilon);
  };
  const int64_t runs = batch.end[batch.num_tensors - 1];
  int at = 0;  // of the tensor
#pragma unroll 1
  for (int64_t run = blockIdx.x; run < runs; run += gridDim.x) {
    while (run >= batch.end[at]) ++at;
    const AdamwTensors& x = batch.tensors[at];
    const int64_t begin = (run - (at == 0 ? 0 : batch.end[at - 1])) * kRun;
    const int64_t n = x.count - begin < kRun ? x.count - begin : kRun;
    float *const ws = x.w + begin, *const ms = x.m + begin, *const vs = x.v + begin;
    const float* const gs = x.g + begin;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < n / 4; i += kThreads) {
      float4 w = reinterpret_cast<float4*>(ws)[i], m = reinterpret_cast<float4*>(ms)[i];
      float4 v = reinterpret_cast<float4*>(vs)[i];
      const float4 g = reinterpret_cast<const float4*>(gs)[i];
      update(&w.x, &m.x, &v.x, g.x);
      update(&w.y, &m.y, &v.y, g.y);
      update(&w.z, &m.z, &v.z, g.z);
      update(&w.w, &m.w, &v.w, g.w);
      reinterpret_cast<float4*>(ws)[i] = w;
      reinterpret_cast<float4*>(ms)[i] = m;
      reinterpret_cast<float4*>(vs)[i] = v;
    }
    if (const int64_t i = n / 4 * 4 + threadIdx.x; i < n) update(ws + i, ms + i, vs + i, gs[i]);
  }
}

AdamwStep StepOf(const KernelArgs& args) {
  const AttrMap& attrs = *args.attrs;
  const double beta1 = attrs.Double("beta1", 0.9), beta2 = attrs.Double("beta2", 0.999);
  const AdamwAttrs constants = {static_cast<float>(beta1),
                                static_cast<float>(beta2),
                                static_cast<float>(1 - beta1),
                                static_cast<float>(1 - beta2),
                                static_cast<float>(std::log(beta1)),
                                static_cast<float>(std::log(beta2)),
                                static_cast<float>(attrs.Double("weight_decay")),
                                static_cast<float>(attrs.Double("epsilon", 1e-8))};
  return {constants, args.in[4].as<const float>(), args.in[5].as<const float>(), args.in[6].as<const int64_t>()};
}

bool AreOfOneStep(const KernelArgs& a, const KernelArgs& b) {
  for (const int scalar : {4, 5, 6}) {
    if (a.in[scalar].data != b.in[scalar].data) return false;
  }
  return a.attrs == b.attrs || *a.attrs == *b.attrs;
}

// in of each: w, m, v (all overwritten), g, lr[], scale[], step[]. A launch for as many as it has room for, of those
// that have attributes and scalars in common.
const char* AdamwUpdates(std::span<const KernelArgs> calls) {
  std::vector<bool> done(calls.size(), false);
  for (size_t first = 0; first < calls.size(); ++first) {
    AdamwBatch batch;
    int64_t runs = 0;
    for (size_t i = first; i < calls.size() && batch.num_tensors < kTensorsAtOnce; ++i) {
      if (done[i] || !AreOfOneStep(calls[first], calls[i])) continue;
      const std::span<const TensorArg> in = calls[i].in;
      done[i] = true;
      if (in[0].count == 0) continue;
      batch.end[batch.num_tensors] = runs += (in[0].count + kRun - 1) / kRun;
      batch.tensors[batch.num_tensors++] = {in[0].as<float>(), in[1].as<float>(), in[2].as<float>(),
                                            in[3].as<const float>(), in[0].count};
    }
    if (batch.num_tensors == 0) continue;
    if (const char* error = Launch({Stream(calls[first]), Blocks(runs, 1)}, AdamwKernel, StepOf(calls[first]), batch)) {
      return error;
    }
  }
  return nullptr;
}
const char* AdamwUpdate(const KernelArgs& args) { return AdamwUpdates({&args, 1}); }

struct Functions {
  __device__ static float Sign(float x) { return SignOf(x); }
};

// nvcc captures no array.
template <int kStates>
struct States {
  float* of[kStates];
};

// in: w, the rule's states (all overwritten), g, lr[], scale[].
template <typename Rule>
const char* UpdateBy(const KernelArgs& args) {
  constexpr int kStates = Rule::kStates;
  States<kStates> states;
  for (int state = 0; state < kStates; ++state) states.of[state] = args.in[1 + state].as<float>();
  float* const w = args.in[0].as<float>();
  const float* const g = args.in[kStates + 1].as<const float>();
  const float* const lr = args.in[kStates + 2].as<const float>();
  const float* const scale = args.in[kStates + 3].as<const float>();
  const Rule rule(*args.attrs);
  return ForEach(Stream(args), args.in[0].count, [=] __device__(int64_t i) {
    if (isnan(*scale)) return;  // skipped
    float weight = w[i], of_element[kStates];
    for (int state = 0; state < kStates; ++state) of_element[state] = states.of[state][i];
    rule.template Update<Functions>(*lr, *scale, weight, of_element, g[i]);
    for (int state = 0; state < kStates; ++state) states.of[state][i] = of_element[state];
    w[i] = weight;
  });
}

// in: v (overwritten), x.
const char* EmaUpdate(const KernelArgs& args) {
  float* const v = args.in[0].as<float>();
  const float* const x = args.in[1].as<const float>();
  const double decay = args.attrs->Double("decay");
  const float keep = static_cast<float>(decay), take = static_cast<float>(1 - decay);
  return ForEach(Stream(args), args.in[0].count, [=] __device__(int64_t i) { v[i] = v[i] * keep + x[i] * take; });
}

// in: v (overwritten), x, step[], scale[].
const char* AverageUpdate(const KernelArgs& args) {
  float* const v = args.in[0].as<float>();
  const float* const x = args.in[1].as<const float>();
  const int64_t* const step = args.in[2].as<const int64_t>();
  const float* const scale = args.in[3].as<const float>();
  const double decay = args.attrs->Double("decay");
  const float keep = static_cast<float>(decay), take = static_cast<float>(1 - decay);
  return ForEach(Stream(args), args.in[0].count, [=] __device__(int64_t i) {
    if (isnan(*scale)) return;  // skipped
    v[i] = *step == 0 ? x[i] : v[i] * keep + x[i] * take;
  });
}

// in: v (overwritten), x, scale[].
const char* GuardedAssign(const KernelArgs& args) {
  float* const v = args.in[0].as<float>();
  const float* const x = args.in[1].as<const float>();
  const float* const scale = args.in[2].as<const float>();
  return ForEach(Stream(args), args.in[0].count, [=] __device__(int64_t i) {
    if (!isnan(*scale)) v[i] = x[i];
  });
}

// in: the sums of squares of a and of b; out: the ratio of their norms.
const char* TrustRatio(const KernelArgs& args) {
  const AttrMap& attrs = *args.attrs;
  const double coefficient = attrs.Double("coefficient", 1), decay = attrs.Double("decay"),
               epsilon = attrs.Double("epsilon");
  const float* const squares_a = args.in[0].as<const float>();
  const float* const squares_b = args.in[1].as<const float>();
  float* const ratio = args.out[0].as<float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) {
    const double a = sqrt(static_cast<double>(*squares_a)), b = sqrt(static_cast<double>(*squares_b));
    *ratio = a > 0 && b > 0 ? static_cast<float>(coefficient * a / (b + decay * a + epsilon)) : 1.0f;
  });
}

// in: the step, from 0. 1 - beta^t is -expm1(t log beta).
const char* BiasCorrection(const KernelArgs& args) {
  const double log_beta = std::log(args.attrs->Double("beta"));
  const int64_t* const now = args.in[0].as<const int64_t>();
  float* const rest = args.out[0].as<float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) {
    *rest = static_cast<float>(-expm1(static_cast<double>(*now + 1) * log_beta));
  });
}

const char* StepPower(const KernelArgs& args) {
  const double exponent = args.attrs->Double("exponent");
  const int64_t* const now = args.in[0].as<const int64_t>();
  float* const power = args.out[0].as<float>();
  return ForEach(Stream(args), 1, [=] __device__(int64_t) {
    *power = static_cast<float>(pow(static_cast<double>(*now + 1), exponent));
  });
}

}  // namespace

KernelList OptimizerKernels() { return {OF_OPTIMIZER_KERNELS(nullptr, nullptr, AdamwUpdates)}; }

}  // namespace oneflow::cuda
