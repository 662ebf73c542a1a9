#include "compiler/schedule/play.h"

#include <algorithm>

#include "compiler/schedule/walk.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

// When forward and the gradient of the input of every chunk and micro-batch ended.
class Ends {
 public:
  Ends(const Schedule& schedule, const ScheduleCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        forward_(static_cast<size_t>(schedule.num_chunks()) * schedule.num_micro_batches),
        backward_(forward_.size()) {}

  // When what `action` needs of another chunk is there.
  double Arrival(const Action& action) const {
    const int chunk = action.chunk;
    if (action.kind == ActionKind::kForward) {
      return chunk == 0 ? 0 : forward_[At(chunk - 1, action)] + Travel(chunk - 1);
    }
    if (action.kind == ActionKind::kWeightGradient || chunk + 1 == schedule_.num_chunks()) return 0;
    return backward_[At(chunk + 1, action)] + Travel(chunk);
  }

  void Set(const Action& action, double end) {
    if (action.kind == ActionKind::kForward) forward_[At(action.chunk, action)] = end;
    if (action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward) {
      backward_[At(action.chunk, action)] = end;
    }
  }

 private:
  size_t At(int chunk, const Action& action) const {
    return static_cast<size_t>(chunk) * schedule_.num_micro_batches + action.micro_batch;
  }
  // Between `chunk` and the next.
  double Travel(int chunk) const {
    return schedule_.rank_of_chunk[chunk] == schedule_.rank_of_chunk[chunk + 1] ? 0 : costs_.TransferAfter(chunk);
  }

  const Schedule& schedule_;
  const ScheduleCosts& costs_;
  std::vector<double> forward_, backward_;
};

double SecondsOf(absl::Span<const Action> step, const ScheduleCosts& costs) {
  double seconds = 0;
  for (const Action& action : step) seconds += costs.chunks[action.chunk].Seconds(action.kind);
  return step.size() == 1 ? seconds : seconds * costs.together;
}

}  // namespace

double Timeline::Bubble() const {
  if (idle.empty()) return 0;
  const double least = *std::min_element(idle.begin(), idle.end());
  return makespan > least ? least / (makespan - least) : 0;
}

std::vector<int64_t> PeakActivations(const Schedule& schedule, const ScheduleCosts& costs) {
  std::vector<int64_t> peaks;
  for (const std::vector<Action>& actions : schedule.ranks) {
    int64_t live = 0, peak = 0;
    for (const Action& action : actions) {
      const int64_t activations = costs.chunks[action.chunk].activations;
      if (action.kind == ActionKind::kForward) peak = std::max(peak, live += activations);
      if (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward) live -= activations;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

Timeline Play(const Schedule& schedule, const ScheduleCosts& costs) {
  CHECK_EQ(costs.chunks.size(), schedule.rank_of_chunk.size());
  Timeline timeline;
  for (const std::vector<Action>& actions : schedule.ranks) timeline.ranks.emplace_back(actions.size());
  std::vector<double> free_at(schedule.ranks.size(), 0), busy(schedule.ranks.size(), 0);
  Ends ends(schedule, costs);
  WalkSchedule(schedule, [&](int rank, size_t position, absl::Span<const Action> step) {
    TimeSpan span{free_at[rank], 0};
    for (const Action& action : step) span.begin = std::max(span.begin, ends.Arrival(action));
    const double seconds = SecondsOf(step, costs);
    span.end = free_at[rank] = span.begin + seconds;
    busy[rank] += seconds;
    for (size_t i = 0; i < step.size(); ++i) {
      ends.Set(step[i], span.end);
      timeline.ranks[rank][position + i] = span;
    }
  });
  for (const double end : free_at) timeline.makespan = std::max(timeline.makespan, end);
  for (const double seconds : busy) timeline.idle.push_back(timeline.makespan - seconds);
  timeline.peak = PeakActivations(schedule, costs);
  return timeline;
}

}  // namespace oneflow
