// The paths that a sample's labels allow in ctc_loss, for all devices: labels with blanks before, between and behind
// them are states 0 .. 2 L, of which every step takes the last one again, the next one, or, over a blank between
// different labels, the one after that.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernel.h"

namespace oneflow {

inline constexpr int32_t kCtcBlank = 0;  // the class

struct CtcSample {
  const float* log_probs;  // [t,c]
  const int32_t* labels;
  int64_t steps, num_labels, classes;
  bool good;  // lengths and labels are what they may be

  OF_HOST_DEVICE int64_t states() const { return 2 * num_labels + 1; }
  OF_HOST_DEVICE int32_t Class(int64_t state) const { return state % 2 == 0 ? kCtcBlank : labels[state / 2]; }
  // Whether a path may come to the state from two before it.
  OF_HOST_DEVICE bool Skips(int64_t state) const {
    return state > 2 && state % 2 == 1 && Class(state) != Class(state - 2);
  }
  OF_HOST_DEVICE float LogProb(int64_t step, int64_t state) const { return log_probs[step * classes + Class(state)]; }
};

// Of log_probs[b,t,c], labels[b,s], input_lengths[b] and label_lengths[b].
struct CtcOperands {
  // `first`: which input the first of them is.
  CtcOperands(const KernelArgs& args, int first)
      : log_probs(args.in[first].as<const float>()),
        labels(args.in[first + 1].as<const int32_t>()),
        input_lengths(args.in[first + 2].as<const int32_t>()),
        label_lengths(args.in[first + 3].as<const int32_t>()),
        b(args.in[first].dims[0]),
        t(args.in[first].dims[1]),
        c(args.in[first].dims[2]),
        s(args.in[first + 1].dims[1]),
        zero_infinity(args.attrs->Bool("zero_infinity")) {}

  OF_HOST_DEVICE CtcSample Sample(int64_t i) const {
    CtcSample x = {log_probs + i * t * c, labels + i * s, input_lengths[i], label_lengths[i], c, true};
    x.good = x.steps >= 0 && x.steps <= t && x.num_labels >= 0 && x.num_labels <= s;
    for (int64_t j = 0; x.good && j < x.num_labels; ++j) x.good = x.labels[j] > kCtcBlank && x.labels[j] < c;
    return x;
  }
  // The most states of a sample.
  OF_HOST_DEVICE int64_t most_states() const { return 2 * s + 1; }

  const float* log_probs;
  const int32_t *labels, *input_lengths, *label_lengths;
  int64_t b, t, c, s;
  bool zero_infinity;  // a loss that is infinite becomes 0, with gradients of 0
};

}  // namespace oneflow
