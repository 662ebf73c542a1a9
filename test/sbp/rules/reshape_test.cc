#include "sbp/slices.h"
#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

std::vector<std::string> Reshape(const std::string& from, const std::string& to, int axis_size) {
  return SignatureTexts("reshape", "", "f32" + from, "f32" + to, axis_size);
}

TEST(ReshapeRuleTest, TheLeadingDimensionOfAGroupPasses) {
  EXPECT_THAT(Reshape("[8,4,6]", "[8,24]", 2), ElementsAre("S(0)->S(0)", "S(1)->S(1)", "P->P", "B->B"));
  EXPECT_THAT(Reshape("[12,5]", "[2,6,5]", 2), ElementsAre("S(0)->S(0)", "S(1)->S(2)", "P->P", "B->B"));
}

TEST(ReshapeRuleTest, EqualLeadingSizesPassUnevenlyOthersMustDivide) {
  EXPECT_THAT(Reshape("[7,4]", "[7,2,2]", 2), ElementsAre("S(0)->S(0)", "S(1)->S(1)", "P->P", "B->B"));
  EXPECT_THAT(Reshape("[6,4]", "[24]", 2), ElementsAre("S(0)->S(0)", "P->P", "B->B"));
  EXPECT_THAT(Reshape("[6,4]", "[24]", 4), ElementsAre("P->P", "B->B"));  // 6 rows in 2 2 1 1, 24 elements in 6 6 6 6
  EXPECT_THAT(Reshape("[2,3]", "[3,2]", 2), ElementsAre("P->P", "B->B"));
}

TEST(ReshapeRuleTest, DimensionsOfOneOrderNothing) {
  EXPECT_THAT(Reshape("[1,8,1,3]", "[8,3,1]", 2), ElementsAre("S(1)->S(0)", "S(3)->S(1)", "P->P", "B->B"));
  EXPECT_THAT(Reshape("[1]", "[]", 2), ElementsAre("P->P", "B->B"));
}

TEST(ReshapeRuleTest, AnEmptyTensorIsNotSplit) {
  EXPECT_THAT(Reshape("[0,3]", "[3,0]", 2), ElementsAre("P->P", "B->B"));
}

// The interval of row-major positions that a rank holds of the outermost split dimension, for all inner prefixes alike.
TEST(ReshapeRuleTest, WhateverIsOfferedHoldsTheSameElementsOnBothSides) {
  const std::pair<Shape, Shape> kCases[] = {{{6, 4}, {24}},       {{6, 4}, {4, 6}},       {{8, 4, 6}, {8, 24}},
                                            {{5, 12}, {5, 3, 4}}, {{12, 10}, {4, 3, 10}}, {{4, 9}, {2, 18}},
                                            {{24}, {6, 2, 2}},    {{7, 6}, {7, 3, 2}}};
  const auto elements = [](const Shape& shape, const DistType& dist, int index) {
    const Region region = ShardRegion(shape, dist, index);
    const std::vector<int64_t> strides = shape.Strides();
    std::vector<int64_t> result = {0};
    for (int d = 0; d < shape.rank(); ++d) {
      std::vector<int64_t> longer;
      for (int64_t base : result) {
        for (int64_t i = 0; i < region.extent[d]; ++i) longer.push_back(base + (region.start[d] + i) * strides[d]);
      }
      result = longer;
    }
    return result;
  };
  OpDef op;
  op.name = "reshape";
  int splits = 0;
  for (const auto& [x, y] : kCases) {
    for (int p = 1; p <= 6; ++p) {
      const TensorType in{DType::kFloat32, x}, out{DType::kFloat32, y};
      ASSERT_OK_AND_ASSIGN(const auto signatures, Signatures1d(op, {in}, {out}, {}, p));
      for (const Signature& signature : signatures) {
        if (!signature.inputs[0].is_split()) continue;
        ++splits;
        std::vector<int> ranks(p);
        for (int r = 0; r < p; ++r) ranks[r] = r;
        const Placement placement({{"x", p}}, ranks);
        for (int r = 0; r < p; ++r) {
          EXPECT_EQ(elements(x, {placement, signature.inputs}, r), elements(y, {placement, signature.outputs}, r))
              << x.ToString() << " to " << y.ToString() << " " << signature.ToString() << " rank " << r << " of " << p;
        }
      }
    }
  }
  EXPECT_GT(splits, 40);
}

}  // namespace
}  // namespace oneflow
