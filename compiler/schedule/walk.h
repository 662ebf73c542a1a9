// Goes through the actions of a schedule as ranks that follow their lists: no action before its inputs.
//
// Linear: a blocked rank is tried again only when a rank beside it in the pipeline has done something.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace oneflow {

// The finished actions of every chunk and micro-batch. The chunks and micro-batches of the schedule are in range.
class DoneActions {
 public:
  explicit DoneActions(const Schedule& schedule)
      : num_micro_batches_(schedule.num_micro_batches),
        num_chunks_(schedule.num_chunks()),
        bits_(static_cast<size_t>(schedule.num_chunks()) * schedule.num_micro_batches) {}

  static constexpr uint8_t kF = 1, kI = 2, kW = 4;
  static uint8_t BitsOf(ActionKind kind) {
    constexpr uint8_t kBits[] = {kF, kI, kW, kI | kW};
    return kBits[static_cast<int>(kind)];
  }

  uint8_t& of(int chunk, int micro_batch) {
    return bits_[static_cast<size_t>(chunk) * num_micro_batches_ + micro_batch];
  }
  void Add(const Action& action) { of(action.chunk, action.micro_batch) |= BitsOf(action.kind); }

  // The chunk from which `action` needs a value: the one before for F, the one behind for I and B; -1: from none.
  int NeededChunk(const Action& action) const {
    if (action.kind == ActionKind::kForward) return action.chunk - 1;
    if (action.kind == ActionKind::kWeightGradient || action.chunk + 1 == num_chunks_) return -1;
    return action.chunk + 1;
  }
  // Whether the inputs of `action` from another chunk are done.
  bool HasNeeded(const Action& action) {
    const int chunk = NeededChunk(action);
    if (chunk < 0) return true;
    return (of(chunk, action.micro_batch) & (action.kind == ActionKind::kForward ? kF : kI)) != 0;
  }

 private:
  const int num_micro_batches_, num_chunks_;
  std::vector<uint8_t> bits_;
};

// Calls visit(rank, position, step) for every step (StepAt) after all its inputs. Returns by rank how many actions were
// done: fewer than there are where ranks wait for one another. REQUIRES: chunks and micro-batches are in range, and the
// inputs of an action from its own chunk stand before it.
template <typename Visit>
std::vector<size_t> WalkSchedule(const Schedule& schedule, Visit&& visit) {
  DoneActions done(schedule);
  std::vector<size_t> next(schedule.ranks.size(), 0);
  std::vector<int> to_look_at;
  for (int rank = schedule.num_ranks() - 1; rank >= 0; --rank) to_look_at.push_back(rank);
  const auto look_beside = [&](const Action& action) {
    const int other = action.kind == ActionKind::kForward ? action.chunk + 1 : action.chunk - 1;
    if (other >= 0 && other < schedule.num_chunks()) to_look_at.push_back(schedule.rank_of_chunk[other]);
  };
  while (!to_look_at.empty()) {
    const int rank = to_look_at.back();
    to_look_at.pop_back();
    const std::vector<Action>& actions = schedule.ranks[rank];
    while (next[rank] < actions.size()) {
      const absl::Span<const Action> step = StepAt(actions, next[rank]);
      bool can_begin = true;
      for (const Action& action : step) can_begin = can_begin && done.HasNeeded(action);
      if (!can_begin) break;
      visit(rank, next[rank], step);
      for (const Action& action : step) {
        done.Add(action);
        look_beside(action);
      }
      next[rank] += step.size();
    }
  }
  return next;
}

}  // namespace oneflow
