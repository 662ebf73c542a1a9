// What the checks of a job config are written with.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"

namespace oneflow {

// Collects nothing but the first complaint, so that checks read as a list.
class Checker {
 public:
  explicit Checker(const SourcedConfig& config) : config_(config) {}

  void Require(bool ok, absl::string_view path, absl::string_view what) {
    if (ok || !status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(config_.Where(path), ": ", what));
  }
  // `least` <= value <= `most`.
  void Range(int64_t value, int64_t least, int64_t most, absl::string_view path) {
    Require(value >= least && value <= most, path, absl::StrCat(value, " is not in [", least, ", ", most, "]"));
  }
  // `least` <= value < `below`, and a number.
  void Fraction(double value, double least, double below, absl::string_view path) {
    Require(value >= least && value < below, path, absl::StrCat(value, " is not in [", least, ", ", below, ")"));
  }
  void NotNegative(double value, absl::string_view path) {
    Require(value >= 0 && std::isfinite(value), path, absl::StrCat(value, " is not a finite number >= 0"));
  }
  // What another check says, which names its field itself.
  void Take(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }
  const SourcedConfig& config() const { return config_; }

 private:
  const SourcedConfig& config_;
  absl::Status status_;
};

}  // namespace oneflow
