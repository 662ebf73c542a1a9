#include "oneflow_core/models/model.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

AttrMap Fields(int64_t levels, int64_t groups) {
  return {{"width", int64_t{4}},
          {"levels", levels},
          {"groups", groups},
          {"upsampling", std::string("transposed")},
          {"noise", 0.5}};
}

// On images of 3x28x28.
absl::StatusOr<std::vector<Graph>> Build(int64_t levels) {
  OF_ASSIGN_OR_RETURN(const DataKind images, FindDataKind("images"));
  const AttrMap data = {{"train_images", std::string("i")},
                        {"train_labels", std::string("l")},
                        {"mean", std::string("0.5")},
                        {"std", std::string("0.5")},
                        {"channels", int64_t{3}},
                        {"height", int64_t{28}},
                        {"width", int64_t{28}}};
  return FindModel("unet")->build({Fields(levels, 2), images, data, {.train = 8}, std::nullopt}, Ops());
}

// Kernels and biases of convolutions, and two numbers for each channel of a norm.
TEST(UnetTest, HasTwoConvolutionsAtEachSizeOnBothSides) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Graph> program, Build(1));
  const auto block = [](int64_t in, int64_t out) { return (in + out) * out * 9 + 2 * (out + 2 * out); };
  EXPECT_EQ(testing::NumParameters(program[0]),
            block(3, 4) + block(4, 8) + (8 * 4 * 4 + 4) + block(8, 4) + (4 * 3 + 3));
}

TEST(UnetTest, RefusesImagesAndGroupsThatDoNotDivide) {
  EXPECT_OK(Build(2).status());
  EXPECT_THAT(Build(3).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("unet: images of 28x28 cannot be halved 3 times")));
  EXPECT_FALSE(FindModel("unet")->check(Fields(1, 2)).has_value());
  EXPECT_EQ(FindModel("unet")->check(Fields(1, 3))->what, "3 groups do not divide a width of 4 channels");
}

}  // namespace
}  // namespace oneflow
