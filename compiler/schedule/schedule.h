// Pipeline schedules as values: which rank computes what, and in which order.
//
// A model is cut into chunks, numbered along it from 0, and each rank of a pipeline holds some of them. Every
// micro-batch has the same actions on every chunk:
//
//   F  forward
//   I  the gradient of the chunk's input: the chunk before waits for it
//   W  the gradient of its weights: nobody waits for it before the step ends, and it frees what F kept
//   B  I and W at once
//
// A schedule is the order of actions of every rank and nothing more. For example two ranks, two micro-batches and a
// chunk each, in 1F1B:
//
//   rank 0   0F0 0F1 0B0 0B1
//   rank 1   1F0 1B0 1F1 1B1
//
// It has no times and no transfers: a rank begins an action when the one before has ended and its inputs are there. Any
// order that CheckSchedule (check.h) accepts is a schedule, whoever wrote it. A rank without chunks has no actions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace oneflow {

enum class ActionKind : uint8_t { kForward, kInputGradient, kWeightGradient, kBackward };

struct Action {
  int chunk = 0;
  int micro_batch = 0;
  ActionKind kind = ActionKind::kForward;
  // It runs together with the next action, and both begin when both can: a forward and a backward of other
  // micro-batches, of which one communicates while the other computes (DualPipe).
  bool with_next = false;

  bool operator==(const Action&) const = default;
};

// "2F0": chunk, kind, micro-batch.
std::string ToString(const Action& action);
// 'F', 'I', 'W' or 'B'.
char KindLetter(ActionKind kind);

struct Schedule {
  int num_micro_batches = 0;
  std::vector<int> rank_of_chunk;          // by chunk
  std::vector<std::vector<Action>> ranks;  // by rank: its actions, in order

  int num_chunks() const { return static_cast<int>(rank_of_chunk.size()); }
  int num_ranks() const { return static_cast<int>(ranks.size()); }

  bool operator==(const Schedule&) const = default;
};

// Whether it only evaluates: there is no backward action in it.
bool IsForwardOnly(const Schedule& schedule);

// How chunks are dealt out. Chunk c lies on rank c mod num_ranks.
std::vector<int> RoundRobin(int num_ranks, int chunks_per_rank);
// Two chunks a rank, down and up again: chunk c lies on rank c, and so does chunk 2 num_ranks - 1 - c. The first rank
// has the loss as well, and no value travels where the V turns.
std::vector<int> VShape(int num_ranks);

// The actions that a rank starts together at `position`: one action, or two that run together.
inline absl::Span<const Action> StepAt(absl::Span<const Action> actions, size_t position) {
  return actions.subspan(position, actions[position].with_next && position + 1 < actions.size() ? 2 : 1);
}

}  // namespace oneflow
