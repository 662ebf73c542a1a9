// The losses that a worker's engine hands out, as far as they decide what is done next.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "actor/engine.h"
#include "tools/job/weighted_mean.h"

namespace oneflow {

// Thread-safe.
class LossWatch {
 public:
  void Observe(const Fetched& fetched);

  // The first training step since the last call whose loss is no number though it was used, with that loss. A step that
  // is skipped uses none; but where the loss is scaled by no more than 1, a smaller scale cannot be what it lacks.
  std::optional<std::pair<int64_t, double>> TakeBroken();
  // The last training step whose loss is a number; absent: none was seen yet.
  std::optional<int64_t> last_finite() const;
  // Whether losses of training come here.
  bool sees_losses() const;
  // The mean of the losses of `plan` since the last call; empty if there were none.
  WeightedMean TakeMean(const std::string& plan);

 private:
  void ObserveTrained(int64_t step, double loss) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::optional<int64_t> last_finite_ ABSL_GUARDED_BY(mu_);
  bool sees_losses_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int64_t, double> broken_ ABSL_GUARDED_BY(mu_);           // by step
  std::map<int64_t, double> scales_ ABSL_GUARDED_BY(mu_);           // of the loss, by step
  std::set<int64_t> skipped_ ABSL_GUARDED_BY(mu_);                  // those that changed nothing
  std::map<std::string, WeightedMean> means_ ABSL_GUARDED_BY(mu_);  // by plan, but for training
};

}  // namespace oneflow
