#include "oneflow_core/shape.h"

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(ShapeTest, CountsElementsAndStridesRowMajor) {
  EXPECT_EQ(Shape({2, 3, 4}).count(), 24);
  EXPECT_THAT(Shape({2, 3, 4}).Strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape({5, 0}).count(), 0);
}

TEST(ShapeTest, TypesReadBackFromTheirText) {
  for (const std::string text : {"f32[2,3]", "bf16[]", "f16[0]", "i32[1]", "i64[7]", "u8[4,4,4]", "bool[2]"}) {
    ASSERT_OK_AND_ASSIGN(const TensorType type, TensorType::Parse(text));
    EXPECT_EQ(type.ToString(), text);
  }
}

TEST(ShapeTest, RefusesWhatIsNoType) {
  const BadText cases[] = {{"f32", "does not begin with a dtype"},
                           {"f33[2]", "does not begin with a dtype"},
                           {"[2]", "does not begin with a dtype"},
                           {"f32[2", "not of the form [2,3]"},
                           {"f32[2]x", "not of the form [2,3]"},
                           {"f32[-1]", "'-1' is not a size >= 0"},
                           {"f32[2,]", "'' is not a size >= 0"},
                           {"f32[a]", "'a' is not a size >= 0"},
                           {"f32[1073741824,1073741824]", "more than 2^58 elements"},
                           {"f32[9223372036854775807,0]", "more than 2^58 elements"}};
  for (const BadText& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_THAT(TensorType::Parse(c.text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(ShapeTest, BytesFollowFromTheDType) {
  EXPECT_EQ((TensorType{DType::kBFloat16, {3, 5}}).num_bytes(), 30);
  EXPECT_EQ((TensorType{DType::kInt64, {}}).num_bytes(), 8);
}

}  // namespace
}  // namespace oneflow
