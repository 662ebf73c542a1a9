// The angles of rotary position embeddings, against those of transformers.
#include "oneflow_core/rotary.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

MATCHER(IsRelativelyClose, "is within 2e-6 of the other") {
  const auto& [mine, theirs] = arg;
  return std::abs(mine - theirs) <= 2e-6 * std::abs(theirs);
}

TEST(RotaryTest, PairsSlowDown) {
  const RotaryAngles angles = RotaryAnglesOf({}, 8, 64);
  EXPECT_THAT(angles.inverse, Pointwise(IsRelativelyClose(), {1.0, 0.1, 0.01, 0.001}));
  EXPECT_EQ(angles.amplitude, 1);
}

TEST(RotaryTest, LinearScalingDividesPositions) {
  EXPECT_THAT(RotaryAnglesOf({{"scaling", "linear"}, {"factor", 4.0}}, 8, 64).inverse,
              Pointwise(IsRelativelyClose(), {0.25, 0.025, 0.0025, 0.00025}));
}

TEST(RotaryTest, DynamicScalingGrowsTheta) {
  const AttrMap attrs = {{"scaling", "dynamic"}, {"factor", 2.0}, {"original_context", int64_t{64}}};
  EXPECT_THAT(RotaryAnglesOf(attrs, 8, 128).inverse,
              Pointwise(IsRelativelyClose(), {1.0, 0.06933613, 0.004807499, 0.0003333333}));
  EXPECT_THAT(RotaryAnglesOf(attrs, 8, 64).inverse, Pointwise(IsRelativelyClose(), {1.0, 0.1, 0.01, 0.001}))
      << "not before the context is exceeded";
}

TEST(RotaryTest, YarnInterpolatesSlowPairs) {
  const AttrMap attrs = {{"scaling", "yarn"}, {"factor", 4.0}, {"original_context", int64_t{256}}};
  const RotaryAngles angles = RotaryAnglesOf(attrs, 16, 1024);
  const std::vector<double> golden = {1, 0.256935, 0.0625, 0.013835, 0.0025, 7.90569e-4, 2.5e-4, 7.90569e-5};
  ASSERT_EQ(angles.inverse.size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) EXPECT_NEAR(angles.inverse[i], golden[i], 3e-5 * golden[i]);
  EXPECT_NEAR(angles.amplitude, 1.138629, 1e-6);
  AttrMap given = attrs;
  given.Set("attention_factor", 1.5);
  EXPECT_EQ(RotaryAnglesOf(given, 16, 1024).amplitude, 1.5f);
}

TEST(RotaryTest, Llama3ScalesByWavelength) {
  const AttrMap attrs = {{"scaling", "llama3"},
                         {"factor", 8.0},
                         {"low_frequency", 1.0},
                         {"high_frequency", 4.0},
                         {"original_context", int64_t{1024}}};
  EXPECT_THAT(RotaryAnglesOf(attrs, 8, 8192).inverse,
              Pointwise(IsRelativelyClose(), {1.0, 0.1, 0.003086761, 0.000125}));
}

}  // namespace
}  // namespace oneflow
