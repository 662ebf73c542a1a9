#include "compiler/schedule/check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/schedule/walk.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

std::string Quoted(const Action& action) { return absl::StrCat("'", ToString(action), "'"); }

absl::Status CheckRanksOfChunks(const Schedule& schedule) {
  for (int c = 0; c < schedule.num_chunks(); ++c) {
    const int rank = schedule.rank_of_chunk[c];
    if (rank >= 0 && rank < schedule.num_ranks()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("chunk ", c, " lies on rank ", rank, " of ", schedule.num_ranks(), " ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const Schedule& schedule, int rank, const Action& action) {
  if (action.chunk < 0 || action.chunk >= schedule.num_chunks()) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(action), ": there are ", schedule.num_chunks(), " chunks"));
  }
  if (action.micro_batch < 0 || action.micro_batch >= schedule.num_micro_batches) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(action), ": there are ", schedule.num_micro_batches, " micro-batches"));
  }
  if (schedule.rank_of_chunk[action.chunk] != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(action), ": chunk ", action.chunk, " lies on rank ", schedule.rank_of_chunk[action.chunk]));
  }
  return absl::OkStatus();
}

// That the action is done for the first time, behind what it needs of its own chunk.
absl::Status CheckBehindItsOwn(const Action& action, uint8_t done) {
  const uint8_t bits = DoneActions::BitsOf(action.kind);
  if ((done & bits) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(action), " comes a second time"));
  }
  Action needed = action;
  needed.kind = (bits & DoneActions::kI) != 0 ? ActionKind::kForward : ActionKind::kInputGradient;
  if (action.kind != ActionKind::kForward && (done & DoneActions::BitsOf(needed.kind)) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(action), " comes before ", Quoted(needed)));
  }
  return absl::OkStatus();
}

bool IsBackward(const Action& action) {
  return action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
}

absl::Status CheckStep(absl::Span<const Action> step) {
  if (!step.back().with_next && (step.size() == 1 || (step[0].kind == ActionKind::kForward && IsBackward(step[1])))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(Quoted(step[0]), " is to run together with the next action; ",
                                                 "a pair is an F and, behind it, a B or an I"));
}

absl::Status CheckRank(const Schedule& schedule, int rank, DoneActions& done) {
  const std::vector<Action>& actions = schedule.ranks[rank];
  for (size_t position = 0; position < actions.size();) {
    const absl::Span<const Action> step = StepAt(actions, position);
    OF_RETURN_IF_ERROR(CheckStep(step));
    for (const Action& action : step) {
      OF_RETURN_IF_ERROR(CheckPlace(schedule, rank, action));
      OF_RETURN_IF_ERROR(CheckBehindItsOwn(action, done.of(action.chunk, action.micro_batch)));
    }
    for (const Action& action : step) done.Add(action);
    position += step.size();
  }
  return absl::OkStatus();
}

absl::Status CheckNothingIsMissing(const Schedule& schedule, DoneActions& done) {
  const bool forward_only = IsForwardOnly(schedule);
  for (int chunk = 0; chunk < schedule.num_chunks(); ++chunk) {
    for (int micro_batch = 0; micro_batch < schedule.num_micro_batches; ++micro_batch) {
      const uint8_t bits = done.of(chunk, micro_batch);
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
        if ((bits & DoneActions::BitsOf(kind)) != 0 || (forward_only && kind != ActionKind::kForward)) continue;
        const Action missing{chunk, micro_batch, kind};
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", schedule.rank_of_chunk[chunk], ": ", Quoted(missing), " is missing"));
      }
    }
  }
  return absl::OkStatus();
}

// What `waiting` needs of another chunk, as its rank's list has it.
const Action& NeededAction(const Schedule& schedule, const DoneActions& done, const Action& waiting) {
  const int chunk = done.NeededChunk(waiting);
  const std::vector<Action>& actions = schedule.ranks[schedule.rank_of_chunk[chunk]];
  return *std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
    return action.chunk == chunk && action.micro_batch == waiting.micro_batch &&
           (waiting.kind == ActionKind::kForward ? action.kind == waiting.kind : IsBackward(action));
  });
}

// The ranks that cannot go on at `next` wait for one another: what is needed and not done is in the list of another
// such rank.
absl::Status Stuck(const Schedule& schedule, const std::vector<size_t>& next, DoneActions& done) {
  std::vector<int> ranks;  // each waits for the next one
  std::vector<std::string> waits;
  int rank = 0;
  while (next[rank] == schedule.ranks[rank].size()) ++rank;
  while (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    ranks.push_back(rank);
    const absl::Span<const Action> step = StepAt(schedule.ranks[rank], next[rank]);
    const Action& waiting = done.HasNeeded(step[0]) ? step.back() : step[0];
    const Action& needed = NeededAction(schedule, done, waiting);
    rank = schedule.rank_of_chunk[needed.chunk];
    waits.push_back(absl::StrCat("rank ", ranks.back(), " waits with ", Quoted(waiting), " for ", Quoted(needed),
                                 " of rank ", rank));
  }
  waits.erase(waits.begin(), waits.begin() + (std::find(ranks.begin(), ranks.end(), rank) - ranks.begin()));
  return absl::InvalidArgumentError(absl::StrCat("ranks wait for one another: ", absl::StrJoin(waits, ", ")));
}

// Before there is a byte for each chunk and micro-batch: what a few actions name may be as many as there are bytes.
absl::Status CheckThereAreEnough(const Schedule& schedule) {
  constexpr size_t kSmall = 1 << 20;
  const size_t forward = static_cast<size_t>(schedule.num_chunks()) * schedule.num_micro_batches;
  size_t actions = 0;
  for (const std::vector<Action>& of_rank : schedule.ranks) actions += of_rank.size();
  if (forward <= std::max(actions, kSmall)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there are ", actions, " actions of ", schedule.num_chunks(),
                                                 " chunks and ", schedule.num_micro_batches, " micro-batches"));
}

}  // namespace

absl::Status CheckSchedule(const Schedule& schedule) {
  OF_RETURN_IF_ERROR(CheckRanksOfChunks(schedule));
  OF_RETURN_IF_ERROR(CheckThereAreEnough(schedule));
  DoneActions in_lists(schedule);
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    OF_RETURN_IF_ERROR_AT(CheckRank(schedule, rank, in_lists), absl::StrCat("rank ", rank));
  }
  OF_RETURN_IF_ERROR(CheckNothingIsMissing(schedule, in_lists));
  DoneActions done(schedule);
  const std::vector<size_t> next = WalkSchedule(schedule, [&](int, size_t, absl::Span<const Action> step) {
    for (const Action& action : step) done.Add(action);
  });
  for (size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < schedule.ranks[rank].size()) return Stuck(schedule, next, done);
  }
  return absl::OkStatus();
}

}  // namespace oneflow
