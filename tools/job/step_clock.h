// How long training steps take, told by when their values came. Values of several steps may come at once, so times are
// means over a tenth of a second at least, or of the one step that takes longer, or of a run that takes less.
#pragma once

#include <cstdint>
#include <optional>

namespace oneflow {

class StepClock {
 public:
  struct Span {
    int64_t last = 0;    // step with which it ends
    int64_t steps = 0;   // that it has
    double seconds = 0;  // of each, in the mean
  };

  // A step has ended; the span that it completes, if it does.
  std::optional<Span> Tick(int64_t step, int64_t time_us);
  // What comes until the next step is no training. What is left of the run.
  std::optional<Span> Stop();

 private:
  std::optional<Span> Take();

  int64_t first_step_ = -1, last_step_ = -1;  // after the first the span begins; -1: none does
  int64_t begin_us_ = 0, end_us_ = 0;
};

}  // namespace oneflow
