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

namespace oneflow {

// Thread-safe.
class LossWatch {
 public:
  void Observe(const Fetched& fetched);

  // The first training step since the last call whose loss is no number and which changed weights, with that loss.
  std::optional<std::pair<int64_t, double>> TakeBroken();
  // Sum and number of the losses of `plan` since the last call.
  std::pair<double, int64_t> TakeSum(const std::string& plan);

 private:
  absl::Mutex mu_;
  std::map<int64_t, double> broken_ ABSL_GUARDED_BY(mu_);                        // by step
  std::set<int64_t> skipped_ ABSL_GUARDED_BY(mu_);                               // those that changed nothing
  std::map<std::string, std::pair<double, int64_t>> sums_ ABSL_GUARDED_BY(mu_);  // by plan, but for training
};

}  // namespace oneflow
