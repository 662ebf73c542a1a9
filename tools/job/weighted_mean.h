// Means over the batches of an evaluation. The last batch may be smaller and counts as much less; a mean over what
// counts in a batch counts as often as there is any of it.
#pragma once

#include "proto/control.pb.h"

namespace oneflow {

class WeightedMean {
 public:
  void Add(double value, double weight) {
    sum_ += value * weight;
    weight_ += weight;
  }
  void Add(const pb::FetchedValue& fetched) {
    for (const double value : fetched.values()) Add(value, fetched.has_weight() ? fetched.weight() : 1);
  }

  double sum() const { return sum_; }
  double weight() const { return weight_; }
  // 0 of no weight, as a step_mean.
  double mean() const { return weight_ == 0 ? 0 : sum_ / weight_; }

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace oneflow
