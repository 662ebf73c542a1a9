#include "actor/joined_calls.h"

#include <algorithm>
#include <optional>

namespace oneflow {
namespace {

struct Reaches {
  std::vector<MemoryReach> read, written;
};

Reaches ReachesOf(const BoundInstruction& instruction, const JoinableCall& call) {
  Reaches reaches;
  const std::span<const MemoryReach> all = instruction.operands().reaches();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& overwritten = call.overwritten;
    const bool is_written = i >= call.args.in.size() ||
                            std::find(overwritten.begin(), overwritten.end(), static_cast<int>(i)) != overwritten.end();
    (is_written ? reaches.written : reaches.read).push_back(all[i]);
  }
  return reaches;
}

bool Meet(const std::vector<MemoryReach>& some, const std::vector<MemoryReach>& others) {
  return std::any_of(some.begin(), some.end(), [&](const MemoryReach& one) {
    return std::any_of(others.begin(), others.end(), [&](const MemoryReach& other) { return one.Meets(other); });
  });
}

// Whether both may be parts of one call.
bool AreApart(const Reaches& a, const Reaches& b) {
  return !Meet(a.written, b.written) && !Meet(a.written, b.read) && !Meet(a.read, b.written);
}

// The index behind the last instruction from `begin` on that joins the call of the first.
size_t EndOfCall(const std::vector<const BoundInstruction*>& instructions, size_t begin) {
  const std::optional<JoinableCall> first = instructions[begin]->joinable();
  if (!first.has_value()) return begin + 1;
  std::vector<Reaches> parts = {ReachesOf(*instructions[begin], *first)};
  size_t end = begin + 1;
  for (; end < instructions.size(); ++end) {
    const std::optional<JoinableCall> call = instructions[end]->joinable();
    if (!call.has_value() || call->kernel != first->kernel) break;
    Reaches reaches = ReachesOf(*instructions[end], *call);
    const auto is_apart = [&](const Reaches& part) { return AreApart(part, reaches); };
    if (!std::all_of(parts.begin(), parts.end(), is_apart)) break;
    parts.push_back(std::move(reaches));
  }
  return end;
}

}  // namespace

std::vector<size_t> JoinedCalls(const std::vector<const BoundInstruction*>& instructions) {
  std::vector<size_t> ends;
  while (ends.size() < instructions.size()) {
    const size_t end = EndOfCall(instructions, ends.size());
    ends.resize(end, end);
  }
  return ends;
}

std::vector<size_t> EachAlone(size_t instructions) {
  std::vector<size_t> ends(instructions);
  for (size_t i = 0; i < instructions; ++i) ends[i] = i + 1;
  return ends;
}

}  // namespace oneflow
