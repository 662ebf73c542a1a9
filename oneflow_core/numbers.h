// Numbers of different things, from 0, in the order in which they were first asked about.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace oneflow {

template <typename Thing>
class Numbers {
 public:
  int64_t Of(const Thing& thing) { return known_.emplace(thing, static_cast<int64_t>(known_.size())).first->second; }
  size_t size() const { return known_.size(); }

 private:
  absl::flat_hash_map<Thing, int64_t> known_;
};

}  // namespace oneflow
