// Opened data sources, shared by the ranks of a process: equal attributes, one source. Used while loading only.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "actor/data/source.h"

namespace oneflow {

class SourceCache {
 public:
  // As OpenSource.
  absl::StatusOr<std::shared_ptr<Source>> Open(const AttrMap& attributes);

 private:
  std::vector<std::pair<AttrMap, std::shared_ptr<Source>>> sources_;
};

}  // namespace oneflow
