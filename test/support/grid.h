// Meshes of tests.
#pragma once

#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/mesh.h"

namespace oneflow::testing {

// Ranks 0 to the product of `sizes` less one, in row-major order on axes "axis0", "axis1"...
inline Placement GridOf(const std::vector<int>& sizes) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) axes.push_back({absl::StrCat("axis", i), sizes[i]});
  std::vector<int> ranks(std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return Placement(std::move(axes), std::move(ranks));
}

}  // namespace oneflow::testing
