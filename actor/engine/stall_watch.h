// Notices that a run stands still: no act has ended for a while. Pure: time and acts are told.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace oneflow {

class StallWatch {
 public:
  explicit StallWatch(absl::Duration limit) : limit_(limit) {}

  // Whether no act has ended for `limit`: `acts` have ended by `now`. True once, and again only after progress.
  bool IsStalled(absl::Duration now, int64_t acts) {
    if (acts != acts_) {
      since_ = now, acts_ = acts, is_reported_ = false;
    }
    if (is_reported_ || now - since_ < limit_) return false;
    is_reported_ = true;
    return true;
  }

 private:
  const absl::Duration limit_;
  absl::Duration since_;  // by `now`: of the last progress
  int64_t acts_ = -1;
  bool is_reported_ = false;
};

}  // namespace oneflow
