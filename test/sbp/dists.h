// Placements and dists as short texts: Dist("[x=2]{0,1}", "S(0)").
#pragma once

#include <string>

#include "oneflow_core/mesh.h"

namespace oneflow::testing {

inline Placement Place(const std::string& text) { return *Placement::Parse(text); }

inline DistType Dist(const std::string& placement, const std::string& sbp) {
  return {Place(placement), *ParseNdSbp(sbp)};
}

}  // namespace oneflow::testing
