// What the checks of a job config are written with.
#pragma once

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
  // What another check says, which names its field itself.
  void Take(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }
  const SourcedConfig& config() const { return config_; }

 private:
  const SourcedConfig& config_;
  absl::Status status_;
};

}  // namespace oneflow
