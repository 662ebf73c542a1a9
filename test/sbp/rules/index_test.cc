#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

const AttrMap kAxis0 = {{"axis", int64_t{0}}}, kAxis1 = {{"axis", int64_t{1}}};

TEST(IndexRulesTest, AGatherOfRowsHasTheSignaturesOfAnEmbedding) {
  EXPECT_THAT(SignatureTexts("gather", "", "f32[9,6] i32[4,8]", "f32[4,8,6]", 2, kAxis0),
              ElementsAre("S(0),B->P", "S(1),B->S(2)", "B,S(0)->S(0)", "B,S(1)->S(1)", "P,B->P", "B,B->B"));
}

TEST(IndexRulesTest, AGatherPutsTheDimensionsOfTheIndicesInThePlaceOfItsAxis) {
  EXPECT_THAT(
      SignatureTexts("gather", "", "f32[4,9,6] i32[8,2]", "f32[4,8,2,6]", 2, kAxis1),
      ElementsAre("S(0),B->S(0)", "S(1),B->P", "S(2),B->S(3)", "B,S(0)->S(1)", "B,S(1)->S(2)", "P,B->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("gather", "", "f32[4,9] i32[]", "f32[4]", 2, kAxis1),
              ElementsAre("S(0),B->S(0)", "S(1),B->P", "P,B->P", "B,B->B"));
}

TEST(IndexRulesTest, AScatterSumsOverTheIndicesAndMayKeepAnyPartOfItsAxis) {
  EXPECT_THAT(
      SignatureTexts("scatter_add", "", "f32[4,8,2,6] i32[8,2]", "f32[4,9,6]", 2, kAxis1),
      ElementsAre("S(0),B->S(0)", "B,B->S(1)", "S(3),B->S(2)", "S(1),S(0)->P", "S(2),S(1)->P", "P,B->P", "B,B->B"));
}

TEST(IndexRulesTest, RowsFewerThanRanksAreSplitLast) {
  EXPECT_THAT(SignatureTexts("gather", "", "f32[3,8] i32[8]", "f32[8,8]", 4, kAxis0),
              ElementsAre("S(1),B->S(1)", "B,S(0)->S(0)", "P,B->P", "S(0),B->P", "B,B->B"));
}

}  // namespace
}  // namespace oneflow
