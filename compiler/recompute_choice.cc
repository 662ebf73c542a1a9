#include "compiler/recompute_choice.h"

#include <algorithm>
#include <tuple>

namespace oneflow {
namespace {

// A choice for the first segments.
struct Partial {
  int64_t held = 0;  // bytes at the end of their forward
  double seconds = 0;
  bool again = false;  // the last of them
  int before = -1;     // the choice for those before it
};

// Drops choices that another one is at least as good as; ascending by bytes.
std::vector<Partial> Front(std::vector<Partial> choices) {
  std::sort(choices.begin(), choices.end(), [](const Partial& a, const Partial& b) {
    return std::tie(a.held, a.seconds) < std::tie(b.held, b.seconds);
  });
  std::vector<Partial> front;
  for (const Partial& choice : choices) {
    if (front.empty() || choice.seconds < front.back().seconds) front.push_back(choice);
  }
  if (front.size() <= kMostChoices) return front;
  std::vector<Partial> fewer;
  for (size_t i = 0; i < kMostChoices; ++i) fewer.push_back(front[i * (front.size() - 1) / (kMostChoices - 1)]);
  return fewer;
}

}  // namespace

std::optional<std::vector<bool>> ChooseRecomputed(absl::Span<const RecomputableSegment> chain, int64_t bytes) {
  std::vector<std::vector<Partial>> fronts = {{Partial{}}};
  for (const RecomputableSegment& segment : chain) {
    std::vector<Partial> choices;
    for (size_t i = 0; i < fronts.back().size(); ++i) {
      const Partial& before = fronts.back()[i];
      const int from = static_cast<int>(i);
      if (before.held + segment.kept + segment.working <= bytes) {
        choices.push_back({before.held + segment.kept, before.seconds, false, from});
      }
      if (before.held + segment.kept + segment.kept_again + segment.working <= bytes) {
        choices.push_back({before.held + segment.kept_again, before.seconds + segment.seconds, true, from});
      }
    }
    fronts.push_back(Front(std::move(choices)));
    if (fronts.back().empty()) return std::nullopt;
  }
  // The front descends in seconds, so its last choice is the shortest.
  std::vector<bool> again(chain.size());
  int at = static_cast<int>(fronts.back().size()) - 1;
  for (size_t i = chain.size(); i > 0; --i) {
    again[i - 1] = fronts[i][at].again;
    at = fronts[i][at].before;
  }
  return again;
}

int64_t PeakBytesOf(absl::Span<const RecomputableSegment> chain, const std::vector<bool>& again) {
  int64_t held = 0, peak = 0;
  for (size_t i = 0; i < chain.size(); ++i) {
    peak = std::max(peak, held + chain[i].kept + chain[i].working + (again[i] ? chain[i].kept_again : 0));
    held += again[i] ? chain[i].kept_again : chain[i].kept;
  }
  return peak;
}

double SecondsOfAgain(absl::Span<const RecomputableSegment> chain, const std::vector<bool>& again) {
  double seconds = 0;
  for (size_t i = 0; i < chain.size(); ++i) seconds += again[i] ? chain[i].seconds : 0;
  return seconds;
}

}  // namespace oneflow
