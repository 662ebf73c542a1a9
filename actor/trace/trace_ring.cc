#include "actor/trace/trace_ring.h"

#include <chrono>

namespace oneflow {

static_assert(sizeof(TracedAct) <= 64);

TraceRing::TraceRing(int64_t num_bytes)
    : acts_(static_cast<size_t>(std::max<int64_t>(1, num_bytes / static_cast<int64_t>(sizeof(TracedAct))))) {}

int64_t TraceRing::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void TraceRing::EndAct(const Actor& actor, const Readiness& why) {
  end_ns_ = Now();
  const int64_t step = actor.step();
  acts_[next_] = {.ready_ns = why.ns,
                  .begin_ns = begin_ns_,
                  .end_ns = end_ns_,
                  .step = step,
                  .act = (step - first_step_) * actor.spec().acts_per_step + actor.micro_batch(),
                  .run = run_,
                  .plan = actor.spec().plan,
                  .actor = actor.spec().id,
                  .register_id = why.register_id,
                  .cause = why.cause};
  if (++next_ == acts_.size()) next_ = 0;
  ++recorded_;
}

}  // namespace oneflow
