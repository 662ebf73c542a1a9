// The numbers that a config field may hold, as its declaration writes them (proto/field_options.proto).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Both ends are numbers or infinite; an end that is open, or infinite, does not belong to it.
struct Interval {
  long double low = 0, high = 0;
  bool low_open = false, high_open = false;

  // "[1, 2^18]", "[0, 1)", "(0, inf)", or "any". InvalidArgument if it is none of these, or holds no number.
  static absl::StatusOr<Interval> Parse(absl::string_view text);

  // False for nan.
  bool Contains(long double value) const;
  bool is_bounded() const;
  // "[1, 262144]", in numbers.
  std::string ToString() const;
  // Why a value outside is wrong, for "field: -1 ...": "is not in [1, 262144]", "is negative", "is not positive", "is
  // not a finite number >= 0".
  std::string Complaint(bool is_integer) const;
};

}  // namespace oneflow
