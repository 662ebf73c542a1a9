#include "sbp/place_pairs.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Numbers what it is shown by when it was first seen.
class FirstSeen {
 public:
  int64_t operator()(int x) { return numbers_.emplace(x, static_cast<int64_t>(numbers_.size())).first->second; }

 private:
  absl::flat_hash_map<int, int64_t> numbers_;
};

}  // namespace

int PlacePairs::Number(const Placement& placement) {
  std::vector<int>& numbers = starting_at_[{placement.ranks()[0], placement.size()}];
  for (int number : numbers) {
    if (places_[number] == placement) return number;
  }
  numbers.push_back(static_cast<int>(places_.size()));
  places_.push_back(placement);
  return numbers.back();
}

// For each rank of both when it, its process and its host were first seen, and the host's kind.
std::vector<int64_t> PlacePairs::Describe(const Placement& from, const Placement& to) const {
  std::vector<int64_t> description;
  FirstSeen rank_number, process_number, host_number;
  for (const Placement* const placement : {&from, &to}) {
    for (int rank : placement->ranks()) {
      description.push_back(rank_number(rank));
      description.push_back(process_number(topology_.ProcessOf(rank)));
      description.push_back(host_number(topology_.HostOf(rank)));
      description.push_back(static_cast<int64_t>(topology_.GroupIndexOf(rank)));
    }
  }
  return description;
}

int PlacePairs::Pair(int from, int to) {
  const auto [it, is_new] = pairs_.try_emplace({from, to}, 0);
  if (!is_new) return it->second;
  const Placement &a = places_[from], &b = places_[to];
  const auto [known, is_first] = alike_.try_emplace(
      {absl::StrCat(AxesText(a.axes()), "|", AxesText(b.axes())), Describe(a, b)}, static_cast<int>(firsts_.size()));
  if (is_first) firsts_.emplace_back(from, to);
  it->second = known->second;
  return it->second;
}

}  // namespace oneflow
