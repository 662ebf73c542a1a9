#include "tools/control/worker/loss_watch.h"

#include <cmath>

namespace oneflow {
namespace {

constexpr char kTrain[] = "train";
constexpr char kLoss[] = "loss";
constexpr char kSkipped[] = "skipped";
constexpr char kScale[] = "loss_scale";

}  // namespace

void LossWatch::Observe(const Fetched& fetched) {
  const bool is_loss = fetched.name == kLoss;
  if (!is_loss && fetched.name != kSkipped && fetched.name != kScale) return;
  absl::MutexLock lock(&mu_);
  for (const double value : fetched.values) {
    if (fetched.name == kSkipped) {
      if (value != 0) skipped_.insert(fetched.step);
    } else if (fetched.name == kScale) {
      scales_[fetched.step] = value;
    } else if (fetched.plan != kTrain) {
      means_[fetched.plan].Add(value, fetched.weight.value_or(1));
    } else {
      ObserveTrained(fetched.step, value);
    }
  }
}

void LossWatch::ObserveTrained(int64_t step, double loss) {
  sees_losses_ = true;
  if (!std::isfinite(loss)) {
    broken_.emplace(step, loss);
  } else if (!last_finite_ || step > *last_finite_) {
    last_finite_ = step;
  }
}

std::optional<std::pair<int64_t, double>> LossWatch::TakeBroken() {
  absl::MutexLock lock(&mu_);
  std::optional<std::pair<int64_t, double>> first;
  for (const auto& [step, loss] : broken_) {
    const auto scale = scales_.find(step);
    const bool excused = skipped_.contains(step) && (scale == scales_.end() || scale->second > 1);
    if (!first && !excused) first = {step, loss};
  }
  broken_.clear();
  skipped_.clear();
  scales_.clear();
  return first;
}

std::optional<int64_t> LossWatch::last_finite() const {
  absl::MutexLock lock(&mu_);
  return last_finite_;
}

bool LossWatch::sees_losses() const {
  absl::MutexLock lock(&mu_);
  return sees_losses_;
}

WeightedMean LossWatch::TakeMean(const std::string& plan) {
  absl::MutexLock lock(&mu_);
  return std::exchange(means_[plan], {});
}

}  // namespace oneflow
