#include "tools/study/sim/injection.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

constexpr double kMostMs = 1e9;  // some eleven days

// A rank and a number with `between` between them.
absl::StatusOr<std::pair<int, double>> Parse(const char* flag, const std::string& text, char between, int num_ranks) {
  const std::vector<std::string> parts = absl::StrSplit(text, between);
  int rank = -1;
  double value = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &rank) || !absl::SimpleAtod(parts[1], &value) || !(value > 0) ||
      !(value <= kMostMs)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " '", text, "': is no rank and positive number, as in 5", std::string(1, between), "1.5"));
  }
  if (rank < 0 || rank >= num_ranks) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " '", text, "': there is no rank ", rank, " of ", num_ranks));
  }
  return std::pair(rank, value);
}

absl::Status Twice(const char* flag, int rank) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": rank ", rank, " is named twice"));
}

// From 0 up to `most`, for these numbers.
int64_t Drawn(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, int64_t most) {
  uint64_t x = seed;
  for (const uint64_t word : {a, b, c}) {  // SplitMix64
    x += 0x9e3779b97f4a7c15u + word;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return static_cast<int64_t>(x % (static_cast<uint64_t>(most) + 1));
}

}  // namespace

std::vector<int> Injection::Touched() const {
  std::set<int> ranks;
  for (const auto& [rank, factor] : slow) ranks.insert(rank);
  for (const auto& [rank, ns] : dies_ns) ranks.insert(rank);
  return {ranks.begin(), ranks.end()};
}

absl::StatusOr<Injection> ParseInjection(const std::vector<std::string>& slow, const std::vector<std::string>& kill,
                                         double delay_ms, uint64_t seed, int num_ranks) {
  Injection injection;
  for (const std::string& text : slow) {
    OF_ASSIGN_OR_RETURN(const auto parsed, Parse("--slow", text, '=', num_ranks));
    if (!injection.slow.emplace(parsed.first, parsed.second).second) return Twice("--slow", parsed.first);
  }
  for (const std::string& text : kill) {
    OF_ASSIGN_OR_RETURN(const auto parsed, Parse("--kill", text, '@', num_ranks));
    if (!injection.dies_ns.emplace(parsed.first, std::llround(1e6 * parsed.second)).second)
      return Twice("--kill", parsed.first);
  }
  if (!(delay_ms >= 0) || !(delay_ms <= kMostMs)) {
    return absl::InvalidArgumentError(absl::StrCat("--delay ", delay_ms, ": is no number of milliseconds"));
  }
  injection.delay_ns = std::llround(1e6 * delay_ms);
  injection.seed = seed;
  return injection;
}

SimulatedCosts Injected(SimulatedCosts costs, const Injection& injection) {
  costs.dies_ns = injection.dies_ns;
  if (injection.delay_ns == 0) return costs;
  SimulatedCosts late = costs;
  const int64_t most = injection.delay_ns;
  const uint64_t seed = injection.seed;
  late.act = [act = costs.act, most, seed](int32_t actor, int64_t number) {
    ActCost cost = act ? act(actor, number) : ActCost{};
    cost.ns += Drawn(seed, actor, number, 0, most);
    return cost;
  };
  late.message_ns = [message_ns = costs.message_ns, most, seed](int32_t from, int64_t act, int32_t to, int32_t reg) {
    const int64_t usual = message_ns ? message_ns(from, act, to, reg) : 0;
    return usual + Drawn(seed, from, act, 1 + static_cast<uint64_t>(to), most);
  };
  return late;
}

}  // namespace oneflow
