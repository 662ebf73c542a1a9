// That a job learns the same wherever its tensors lie.
#pragma once

#include <cmath>
#include <vector>

#include "gmock/gmock.h"

namespace oneflow::e2e {

inline constexpr size_t kComparedSteps = 20;  // of the workspace's jobs

// Losses of `kComparedSteps` steps: the first within 1e-6, since sums are only added in another order, and the others,
// up to twenty updates later, within 1e-4.
inline void ExpectSameLosses(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_THAT(got, ::testing::SizeIs(kComparedSteps));
  ASSERT_THAT(want, ::testing::SizeIs(kComparedSteps));
  for (size_t i = 0; i < kComparedSteps; ++i) {
    EXPECT_LE(std::abs(got[i] / want[i] - 1), i == 0 ? 1e-6 : 1e-4) << "step " << i + 1 << ": " << got[i];
  }
}

}  // namespace oneflow::e2e
