#include "compiler/schedule/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {

char KindLetter(ActionKind kind) { return "FIWB"[static_cast<int>(kind)]; }

std::string ToString(const Action& action) {
  return absl::StrCat(action.chunk, std::string(1, KindLetter(action.kind)), action.micro_batch);
}

bool IsForwardOnly(const Schedule& schedule) {
  return std::all_of(schedule.ranks.begin(), schedule.ranks.end(), [](const std::vector<Action>& actions) {
    return std::all_of(actions.begin(), actions.end(),
                       [](const Action& action) { return action.kind == ActionKind::kForward; });
  });
}

std::vector<int> RoundRobin(int num_ranks, int chunks_per_rank) {
  std::vector<int> ranks(static_cast<size_t>(num_ranks) * chunks_per_rank);
  for (size_t c = 0; c < ranks.size(); ++c) ranks[c] = static_cast<int>(c % num_ranks);
  return ranks;
}

std::vector<int> VShape(int num_ranks) {
  std::vector<int> ranks(2 * static_cast<size_t>(num_ranks));
  for (int c = 0; c < num_ranks; ++c) ranks[c] = ranks[ranks.size() - 1 - c] = c;
  return ranks;
}

}  // namespace oneflow
