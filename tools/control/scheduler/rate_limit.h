// How many requests a caller may make: `burst` at once, and `per_second` on the average.
//
// Every caller has a bucket of `burst` tokens that fills again at that rate; a request takes one. A bucket that is full
// is as good as none, so callers that have been quiet are forgotten. Time is passed in. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace oneflow {

class RateLimit {
 public:
  RateLimit(double burst, double per_second) : burst_(burst), per_second_(per_second) {}

  // Whether `caller` may make a request now; if so it has.
  bool Take(const std::string& caller, absl::Time now) {
    if (buckets_.size() >= kMostCallers) Forget(now);
    Bucket& bucket = buckets_.try_emplace(caller, Bucket{burst_, now}).first->second;
    bucket.tokens = TokensAt(bucket, now);
    bucket.at = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }
  size_t num_callers() const { return buckets_.size(); }

 private:
  // More than a cluster has users at a time, and some hundred kilobytes.
  static constexpr size_t kMostCallers = 4096;
  struct Bucket {
    double tokens = 0;
    absl::Time at;
  };
  double TokensAt(const Bucket& bucket, absl::Time now) const {
    return std::min(burst_, bucket.tokens + per_second_ * absl::ToDoubleSeconds(now - bucket.at));
  }
  void Forget(absl::Time now) {
    std::erase_if(buckets_, [&](const auto& entry) { return TokensAt(entry.second, now) >= burst_; });
  }

  const double burst_, per_second_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace oneflow
