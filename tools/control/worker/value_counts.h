// How often which values stand in a variable: counted in buckets that are the same for all variables, so that what
// processes counted of their parts adds up to what the whole has.
//
//   an f32, without its last 20 bits:   sign | exponent | 3 bits of the fraction
//
// is the bucket's number: 8 buckets between a power of two and the next. No variable has values in more than a few
// hundred of them. What is no finite number is counted by nobody.
#pragma once

#include <cstdint>
#include <map>

#include "oneflow_core/dtype.h"
#include "proto/control.pb.h"
#include "proto/tensorboard.pb.h"

namespace oneflow {

class ValueCounts {
 public:
  // `count` elements that lie one behind the other.
  void Add(DType dtype, const char* data, int64_t count);
  // What another process counted of the same variable. What makes no sense in it is left out.
  void Add(const pb::VariableCounted& counted);

  // Without a name.
  pb::VariableCounted ToProto() const;
  pb::tensorboard::Histogram ToHistogram() const;

 private:
  // By bucket, ascending as its values do: n for that number above zero, -1 - n for the same below.
  std::map<int32_t, int64_t> counts_;
  double least_ = 0, greatest_ = 0, sum_ = 0, sum_of_squares_ = 0;  // of those that were counted
};

}  // namespace oneflow
