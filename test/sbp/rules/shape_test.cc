#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(ShapeRulesTest, ATransposeMovesSplits) {
  EXPECT_THAT(SignatureTexts("transpose", "", "f32[4,6,8]", "f32[8,4,6]", 2, {{"perm", std::vector<int64_t>{2, 0, 1}}}),
              ElementsAre("S(0)->S(1)", "S(1)->S(2)", "S(2)->S(0)", "P->P", "B->B"));
}

TEST(ShapeRulesTest, ASliceKeepsItsOwnDimensionWhole) {
  EXPECT_THAT(SignatureTexts("slice", "", "f32[4,6]", "f32[4,2]", 2, {{"axis", int64_t{1}}}),
              ElementsAre("S(0)->S(0)", "P->P", "B->B"));
  EXPECT_THAT(SignatureTexts("slice_grad", "", "f32[2,6]", "f32[4,6]", 2, {{"axis", int64_t{0}}}),
              ElementsAre("S(1)->S(1)", "P->P", "B->B"));
}

TEST(ShapeRulesTest, AConcatenationIsSplitAcrossItsDimension) {
  EXPECT_THAT(SignatureTexts("concat", "", "f32[4,6] f32[4,2]", "f32[4,8]", 2, {{"axis", int64_t{1}}}),
              ElementsAre("S(0),S(0)->S(0)", "P,P->P", "B,B->B"));
}

}  // namespace
}  // namespace oneflow
