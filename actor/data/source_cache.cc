#include "actor/data/source_cache.h"

namespace oneflow {

absl::StatusOr<std::shared_ptr<Source>> SourceCache::Open(const AttrMap& attributes) {
  for (const auto& [known, source] : sources_) {
    if (known == attributes) return source;
  }
  OF_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, OpenSource(attributes));
  sources_.push_back({attributes, source});
  return source;
}

}  // namespace oneflow
