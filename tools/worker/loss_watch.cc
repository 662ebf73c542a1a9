#include "tools/worker/loss_watch.h"

#include <cmath>

namespace oneflow {
namespace {

constexpr char kTrain[] = "train";
constexpr char kLoss[] = "loss";
constexpr char kSkipped[] = "skipped";

}  // namespace

void LossWatch::Observe(const Fetched& fetched) {
  if (fetched.name != kLoss && fetched.name != kSkipped) return;
  absl::MutexLock lock(&mu_);
  for (const double value : fetched.values) {
    if (fetched.name == kSkipped) {
      if (value != 0) skipped_.insert(fetched.step);
    } else if (fetched.plan != kTrain) {
      auto& [sum, count] = sums_[fetched.plan];
      sum += value;
      ++count;
    } else if (!std::isfinite(value)) {
      broken_.emplace(fetched.step, value);
    }
  }
}

std::optional<std::pair<int64_t, double>> LossWatch::TakeBroken() {
  absl::MutexLock lock(&mu_);
  std::optional<std::pair<int64_t, double>> first;
  for (const auto& [step, loss] : broken_) {
    if (!first && !skipped_.contains(step)) first = {step, loss};
  }
  broken_.clear();
  skipped_.clear();
  return first;
}

std::pair<double, int64_t> LossWatch::TakeSum(const std::string& plan) {
  absl::MutexLock lock(&mu_);
  return std::exchange(sums_[plan], {0.0, 0});
}

}  // namespace oneflow
