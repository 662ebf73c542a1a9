#include "tools/job/step_clock.h"

namespace oneflow {
namespace {

constexpr int64_t kLeastUs = 100'000;

}  // namespace

std::optional<StepClock::Span> StepClock::Tick(int64_t step, int64_t time_us) {
  const bool follows = first_step_ >= 0 && step > last_step_;
  if (!follows) {
    first_step_ = step;
    begin_us_ = time_us;
  }
  last_step_ = step;
  end_us_ = time_us;
  return end_us_ - begin_us_ >= kLeastUs ? Take() : std::nullopt;
}

std::optional<StepClock::Span> StepClock::Stop() {
  const std::optional<Span> rest = Take();
  first_step_ = -1;
  return rest;
}

std::optional<StepClock::Span> StepClock::Take() {
  if (first_step_ < 0 || last_step_ == first_step_ || end_us_ <= begin_us_) return std::nullopt;
  Span span{last_step_, last_step_ - first_step_, 0};
  span.seconds = static_cast<double>(end_us_ - begin_us_) * 1e-6 / static_cast<double>(span.steps);
  first_step_ = last_step_;
  begin_us_ = end_us_;
  return span;
}

}  // namespace oneflow
