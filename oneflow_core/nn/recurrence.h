// Recurrences over time, as torch.nn.LSTM and torch.nn.GRU have them, of several layers.
//
//   x [b,t,..] ──► linear "x", for all steps at once ──► lstm or gru, step after step ──► [b,t,width] ──► next layer
//                                                          ▲ states before the first step, weights "h"
//
// Samples may be split; the units of a layer need each other's states in every step, and stay together. Steps may be
// computed in chunks: layers are then at work at different ones at once, where they lie on different ranks.
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "oneflow_core/builder.h"

namespace oneflow::nn {

struct RecurrenceOptions {
  int64_t width = 0;  // units of each layer
  int64_t layers = 1;
  double dropout = 0;  // of what a layer gives the next one
  int64_t chunk = 0;   // steps of one op; 0: all
  std::string init;    // of weights; empty: uniform to 1 / sqrt(width). Biases start as zeros
};

// By layer, f32[b,width]; no elements: zeros. `c` is of LSTMs.
struct RecurrentStates {
  std::vector<Tensor> h, c;
};
struct Recurrence {
  Tensor y;              // f32[b,t,width], of the last layer
  RecurrentStates last;  // behind the last step
};

// x is [b,t,..] with a step at least. Variables "name/l0/x/{weight,bias}" [..,4 width], whose columns are the gates i,
// f, g, o, "name/l0/h/{weight,bias}" [width,4 width], "name/l1/...". The builder fails with InvalidArgument if x is not
// of three dimensions, a number is not positive, or initial states are not of as many layers.
Recurrence Lstm(const Tensor& x, absl::string_view name, const RecurrenceOptions& options,
                const RecurrentStates& initial = {}, std::source_location loc = std::source_location::current());
// The same with 3 width columns: the gates r, z, n.
Recurrence Gru(const Tensor& x, absl::string_view name, const RecurrenceOptions& options,
               const RecurrentStates& initial = {}, std::source_location loc = std::source_location::current());

}  // namespace oneflow::nn
