// What a trace of a real run says that things cost, as the simulator wants it, step for step; behind the last step of
// the trace comes the first again.
//
//   act       from its begin to its end
//   message   from the end of an act to when what it sent came: of messages that the receiver waited for last
//   wake      from when a queue that was idle could act to when it did
//   pause     from the end of an act to the next one that was ready by then
//
// What is not seen of a message, a wake-up, a pause (others came later, there was none) is the median of those alike.
//
// Not medians of everything, because ranks wait for the slowest: the median of what the slowest takes is more than the
// largest of the medians. Whatever slowed the run is in all of these: also that threads had to share a core.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "actor/sim/simulator.h"
#include "actor/trace/trace.h"
#include "oneflow_core/queues.h"
#include "tools/study/trace/steps.h"

namespace oneflow {

class MeasuredCosts {
 public:
  // InvalidArgument, with both hashes, if the trace is of another plan than `program`; FailedPrecondition if no step of
  // the windows is whole.
  static absl::StatusOr<MeasuredCosts> Of(const Trace& trace, const TraceSteps& steps, const pb::Program& program);

  // How many steps there are to be played.
  int64_t num_steps() const { return num_steps_; }

  // What the runtime took for messages and around acts, every time that it was seen, in nanoseconds.
  struct AroundActs {
    std::array<std::vector<double>, 3> message_ns;  // between queues of a rank, ranks of a process, processes
    std::array<std::vector<double>, kNumQueues> wake_ns, pause_ns;
  };
  const AroundActs& around_acts() const { return around_acts_; }
  // Borrows this.
  SimulatedCosts Costs() const;

 private:
  // Between a queue and another of its rank, of its process, of another process.
  enum Distance { kRank, kProcess, kOther, kNumDistances };
  struct Where {
    int queue = 0;  // address
    int rank = 0;
    int process = 0;
  };
  struct PlayedAct {
    int64_t ns = 0;
    int64_t wake_ns = -1;  // negative: not seen
    int64_t pause_ns = -1;
  };

  Distance Between(int32_t from, int32_t to) const;
  // Acts of whole steps; of every act of the trace its number among those of its actor, or -1.
  std::vector<int64_t> TakeActs(const Trace& trace, const TraceSteps& steps, const pb::Plan& plan);
  void TakeWaits(const Trace& trace, const TraceSteps& steps, const std::vector<int64_t>& numbers);
  const PlayedAct& ActOf(int32_t actor, int64_t act) const {
    return acts_[actor][act % static_cast<int64_t>(acts_[actor].size())];
  }

  int64_t num_steps_ = 0;
  AroundActs around_acts_;
  std::vector<Where> where_;                                                        // by actor
  std::vector<std::vector<PlayedAct>> acts_;                                        // by actor, by act
  absl::flat_hash_map<std::tuple<int32_t, int64_t, int32_t>, int64_t> message_ns_;  // from, its act, to
  std::array<int64_t, kNumDistances> usual_message_ns_{};
  std::map<int, int64_t> usual_wake_ns_;  // by queue
  std::vector<int64_t> usual_pause_ns_;   // by actor
};

}  // namespace oneflow
