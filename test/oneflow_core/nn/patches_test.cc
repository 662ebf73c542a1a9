#include "oneflow_core/nn/patches.h"

#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using PatchesTest = testing::ModuleTest;

TEST_F(PatchesTest, AreASequence) {
  const Tensor y = Patches(Input({DType::kFloat32, {2, 3, 8, 12}}), "patches", 4, 5, "normal(0.5)");
  EXPECT_EQ(y.shape(), Shape({2, 6, 5}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  EXPECT_THAT(testing::Parameters(graph),
              ElementsAre(Pair("patches/bias", "f32[5] zeros"), Pair("patches/weight", "f32[5,3,4,4] normal(0.5)")));
}

TEST_F(PatchesTest, RefuseImagesThatAreNotOfWholeOnes) {
  EXPECT_FALSE(Patches(Input({DType::kFloat32, {2, 3, 8, 10}}), "patches", 4, 5, "zeros").valid());
  EXPECT_THAT(builder_.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("patches 'patches': images of 8x10 cannot be cut into patches of 4x4")));
}

}  // namespace
}  // namespace oneflow::nn
