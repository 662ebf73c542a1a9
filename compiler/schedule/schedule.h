// Schedules of a pipeline, as values: who computes what, and in which order.
//
// A model is cut into chunks, numbered along it from 0, and each rank of a pipeline holds some of them. Every
// micro-batch asks the same of every chunk:
//
//   F  forward
//   I  the gradient of the chunk's input: the chunk before waits for it
//   W  the gradient of its weights: nobody waits for it before the step ends, and what F kept is free behind it
//   B  I and W at once
//
// A schedule is, for every rank, the order of its actions and nothing more. Of two ranks, two micro-batches and a chunk
// each, in 1F1B:
//
//   rank 0   0F0 0F1 0B0 0B1
//   rank 1   1F0 1B0 1F1 1B1
//
// No times and no transfers are in it: a rank begins an action when it is done with the one before and what the action
// needs is there. Any order that CheckSchedule (check.h) accepts is a schedule, whoever wrote it; a rank without chunks
// has no actions.
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
  // It runs together with the action behind it, and both begin when both can: a forward and a backward of other
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
  std::vector<std::vector<Action>> ranks;  // by rank: what it does, in order

  int num_chunks() const { return static_cast<int>(rank_of_chunk.size()); }
  int num_ranks() const { return static_cast<int>(ranks.size()); }

  bool operator==(const Schedule&) const = default;
};

// Whether it only evaluates: there is no backward action in it.
bool IsForwardOnly(const Schedule& schedule);

// How chunks are dealt out. Chunk c lies on rank c mod num_ranks.
std::vector<int> RoundRobin(int num_ranks, int chunks_per_rank);
// Two chunks a rank, down and up again: chunk c lies on rank c, chunk 2 num_ranks - 1 - c too. The first rank has the
// loss as well, and no value travels where the V turns.
std::vector<int> VShape(int num_ranks);

// What a rank does at once, from the action at `position` on: one action, or two that run together.
inline absl::Span<const Action> StepAt(absl::Span<const Action> actions, size_t position) {
  return actions.subspan(position, actions[position].with_next && position + 1 < actions.size() ? 2 : 1);
}

}  // namespace oneflow
