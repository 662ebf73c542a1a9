// The end of a step: the clipping factor, the learning rate, and the updates of weights in one pass over memory each,
// or in none where the step is skipped.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"
#include "kernels/optimizer_updates.h"
#include "kernels/rate_schedule.h"

namespace oneflow::cpu {
namespace {

// in: the sum of squares of all gradients; out: scale, norm.
const char* ClipScale(const KernelArgs& args) {
  const double max_norm = args.attrs->Double("max_norm");
  const double norm = std::sqrt(static_cast<double>(args.in[0].as<const float>()[0]));
  args.out[0].as<float>()[0] = max_norm > 0 ? static_cast<float>(std::min(1.0, max_norm / (norm + 1e-6))) : 1.0f;
  args.out[1].as<float>()[0] = static_cast<float>(norm);
  return nullptr;
}

// in: the sum of squares of all gradients, the loss' scale; out: squares, scale, skipped.
const char* Unscale(const KernelArgs& args) {
  const double squares = args.in[0].as<const float>()[0], loss_scale = args.in[1].as<const float>()[0];
  const bool is_good = std::isfinite(squares);
  args.out[0].as<float>()[0] = static_cast<float>(squares / (loss_scale * loss_scale));
  args.out[1].as<float>()[0] = is_good ? static_cast<float>(1 / loss_scale) : std::numeric_limits<float>::quiet_NaN();
  args.out[2].as<float>()[0] = is_good ? 0 : 1;
  return nullptr;
}

// in: loss_scale, good_steps (both overwritten), scale[].
const char* LossScaleUpdate(const KernelArgs& args) {
  float& loss_scale = args.in[0].as<float>()[0];
  int64_t& good_steps = args.in[1].as<int64_t>()[0];
  const AttrMap& attrs = *args.attrs;
  if (std::isnan(args.in[2].as<const float>()[0])) {
    const float less = loss_scale * static_cast<float>(attrs.Double("backoff"));
    loss_scale = std::max(less, std::numeric_limits<float>::min());
    good_steps = 0;
  } else if (++good_steps == attrs.Int("interval")) {
    const float more = loss_scale * static_cast<float>(attrs.Double("growth"));
    if (std::isfinite(more)) loss_scale = more;
    good_steps = 0;
  }
  return nullptr;
}

// in: the step, from 0.
const char* LrSchedule(const KernelArgs& args) {
  const double step = static_cast<double>(args.in[0].as<const int64_t>()[0]);
  args.out[0].as<float>()[0] = static_cast<float>(RateAt(RateSchedule(*args.attrs), step));
  return nullptr;
}

// in: w, m, v (all overwritten), g, lr[], scale[], step[].
const char* AdamwUpdate(const KernelArgs& args) {
  const AttrMap& attrs = *args.attrs;
  float* const w = args.in[0].as<float>();
  float* const m = args.in[1].as<float>();
  float* const v = args.in[2].as<float>();
  const float* const g = args.in[3].as<const float>();
  const double lr = args.in[4].as<const float>()[0], t = static_cast<double>(args.in[6].as<const int64_t>()[0] + 1);
  const double beta1 = attrs.Double("beta1", 0.9), beta2 = attrs.Double("beta2", 0.999);
  const float scale = args.in[5].as<const float>()[0], epsilon = static_cast<float>(attrs.Double("epsilon", 1e-8));
  if (std::isnan(scale)) return nullptr;
  const float keep = static_cast<float>(1 - lr * attrs.Double("weight_decay"));
  const float rate = static_cast<float>(lr / (1 - std::pow(beta1, t)));
  const float inverse_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  const float b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2);
  const float a1 = static_cast<float>(1 - beta1), a2 = static_cast<float>(1 - beta2);
  ParallelFor(args.in[0].count, Grain(7 * sizeof(float)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      const F32s gradient = Load(g + i, lanes) * scale;
      const F32s first = Load(m + i, lanes) * b1 + gradient * a1;
      const F32s second = Load(v + i, lanes) * b2 + gradient * gradient * a2;
      Store(m + i, first, lanes);
      Store(v + i, second, lanes);
      Store(w + i, Load(w + i, lanes) * keep - rate * first / (Sqrt(second) * inverse_bias2 + epsilon), lanes);
    });
  });
  return nullptr;
}

struct Functions {
  OF_INLINE static F32s Sign(F32s x) { return SignOf(x); }
};

// in: w, the rule's states (all overwritten), g, lr[], scale[].
template <typename Rule>
const char* UpdateBy(const KernelArgs& args) {
  constexpr int kStates = Rule::kStates;
  float* const w = args.in[0].as<float>();
  const float* const g = args.in[kStates + 1].as<const float>();
  const float lr = args.in[kStates + 2].as<const float>()[0], scale = args.in[kStates + 3].as<const float>()[0];
  if (std::isnan(scale)) return nullptr;
  const Rule rule(*args.attrs);
  ParallelFor(args.in[0].count, Grain((3 + 2 * kStates) * sizeof(float)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      F32s weight = Load(w + i, lanes), states[kStates];
      for (int state = 0; state < kStates; ++state) states[state] = Load(args.in[1 + state].as<float>() + i, lanes);
      rule.template Update<Functions>(lr, scale, weight, states, Load(g + i, lanes));
      for (int state = 0; state < kStates; ++state) Store(args.in[1 + state].as<float>() + i, states[state], lanes);
      Store(w + i, weight, lanes);
    });
  });
  return nullptr;
}

// v = decay v + (1 - decay) x, of inputs 0 and 1.
const char* Average(const KernelArgs& args, double decay) {
  float* const v = args.in[0].as<float>();
  const float* const x = args.in[1].as<const float>();
  const float keep = static_cast<float>(decay), take = static_cast<float>(1 - decay);
  ParallelFor(args.in[0].count, Grain(3 * sizeof(float)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin, [&](int64_t i, auto lanes) {
      i += begin;
      Store(v + i, Load(v + i, lanes) * keep + Load(x + i, lanes) * take, lanes);
    });
  });
  return nullptr;
}

// in: v (overwritten), x.
const char* EmaUpdate(const KernelArgs& args) { return Average(args, args.attrs->Double("decay")); }

// in: v (overwritten), x, step[], scale[].
const char* AverageUpdate(const KernelArgs& args) {
  if (std::isnan(args.in[3].as<const float>()[0])) return nullptr;
  const bool is_first = args.in[2].as<const int64_t>()[0] == 0;
  return Average(args, is_first ? 0 : args.attrs->Double("decay"));
}

// in: v (overwritten), x, scale[].
const char* GuardedAssign(const KernelArgs& args) {
  if (std::isnan(args.in[2].as<const float>()[0])) return nullptr;
  float* const v = args.in[0].as<float>();
  const float* const x = args.in[1].as<const float>();
  ParallelFor(args.in[0].count, Grain(2 * sizeof(float)),
              [&](int64_t begin, int64_t end) { std::copy(x + begin, x + end, v + begin); });
  return nullptr;
}

// in: the sums of squares of a and of b; out: the ratio of their norms.
const char* TrustRatio(const KernelArgs& args) {
  const AttrMap& attrs = *args.attrs;
  const double a = std::sqrt(args.in[0].as<const float>()[0]), b = std::sqrt(args.in[1].as<const float>()[0]);
  const double below = b + attrs.Double("decay") * a + attrs.Double("epsilon");
  args.out[0].as<float>()[0] = a > 0 && b > 0 ? static_cast<float>(attrs.Double("coefficient", 1) * a / below) : 1.0f;
  return nullptr;
}

// in: the step, from 0.
const char* BiasCorrection(const KernelArgs& args) {
  const double t = static_cast<double>(args.in[0].as<const int64_t>()[0] + 1);
  args.out[0].as<float>()[0] = static_cast<float>(1 - std::pow(args.attrs->Double("beta"), t));
  return nullptr;
}

const char* StepPower(const KernelArgs& args) {
  const double t = static_cast<double>(args.in[0].as<const int64_t>()[0] + 1);
  args.out[0].as<float>()[0] = static_cast<float>(std::pow(t, args.attrs->Double("exponent")));
  return nullptr;
}

}  // namespace

KernelList OptimizerKernels() { return {OF_OPTIMIZER_KERNELS()}; }

}  // namespace oneflow::cpu
