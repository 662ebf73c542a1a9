// Means over the batches of an evaluation, of which the last may be smaller and counts as much less.
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
    for (const double value : fetched.values()) Add(value, fetched.weight() > 0 ? fetched.weight() : 1);
  }

  bool empty() const { return weight_ == 0; }
  double sum() const { return sum_; }
  double weight() const { return weight_; }
  // REQUIRES: it is not empty.
  double mean() const { return sum_ / weight_; }

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace oneflow
