#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

const AttrMap kOverOne = {{"axes", std::vector<int64_t>{1}}};
const AttrMap kOverOneKept = {{"axes", std::vector<int64_t>{1}}, {"keepdims", true}};

TEST(ReduceRulesTest, KeptDimensionsPassAndReducedOnesArePartial) {
  for (const char* op : {"reduce_sum", "reduce_mean"}) {
    EXPECT_THAT(SignatureTexts(op, "", "f32[4,6,8]", "f32[4,8]", 2, kOverOne),
                ElementsAre("S(0)->S(0)", "S(1)->P", "S(2)->S(1)", "P->P", "B->B"));
    EXPECT_THAT(SignatureTexts(op, "", "f32[4,6,8]", "f32[4,1,8]", 2, kOverOneKept),
                ElementsAre("S(0)->S(0)", "S(1)->P", "S(2)->S(2)", "P->P", "B->B"));
  }
}

TEST(ReduceRulesTest, AMaximumOfPartsIsPartialMaximumAndNotLinear) {
  EXPECT_THAT(SignatureTexts("reduce_max", "", "f32[4,6]", "f32[4]", 2, kOverOne),
              ElementsAre("S(0)->S(0)", "S(1)->P(max)", "B->B"));
}

TEST(ReduceRulesTest, AMinimumOfPartsIsPartialMinimum) {
  EXPECT_THAT(SignatureTexts("reduce_min", "", "f32[4,6]", "f32[4,1]", 2, kOverOneKept),
              ElementsAre("S(0)->S(0)", "S(1)->P(min)", "B->B"));
}

TEST(ReduceRulesTest, TheExtremaOfPartsAreCountedAgainstTheWholeOnes) {
  EXPECT_THAT(SignatureTexts("extremum_count", "", "f32[4,6] f32[4]", "f32[4]", 2, kOverOne),
              ElementsAre("S(0),S(0)->S(0)", "S(1),B->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("extremum_grad", "", "f32[4,1] f32[4,6] f32[4,1] f32[4,1]", "f32[4,6]", 2, kOverOneKept),
              ElementsAre("S(0),S(0),S(0),S(0)->S(0)", "B,S(1),B,B->S(1)", "P,B,B,B->P", "B,B,B,B->B"));
}

TEST(ReduceRulesTest, ABiasGradientSumsAllOtherDimensions) {
  EXPECT_THAT(SignatureTexts("bias_grad", "", "f32[4,6]", "f32[6]", 2),
              ElementsAre("S(0)->P", "S(1)->S(0)", "P->P", "B->B"));
  EXPECT_THAT(SignatureTexts("bias_grad", "", "f32[4,6,5]", "f32[6]", 2, {{"axis", int64_t{1}}}),
              ElementsAre("S(0)->P", "S(1)->S(0)", "S(2)->P", "P->P", "B->B"));
}

TEST(ReduceRulesTest, SumToAndBroadcastToMirrorEachOther) {
  EXPECT_THAT(SignatureTexts("sum_to", "", "f32[4,6,8]", "f32[6,1]", 2, {{"shape", std::vector<int64_t>{6, 1}}}),
              ElementsAre("S(0)->P", "S(1)->S(0)", "S(2)->P", "P->P", "B->B"));
  EXPECT_THAT(SignatureTexts("broadcast_to", "", "f32[6,1]", "f32[4,6,8]", 2),
              ElementsAre("B->S(0)", "S(0)->S(1)", "B->S(2)", "P->P", "B->B"));
}

}  // namespace
}  // namespace oneflow
