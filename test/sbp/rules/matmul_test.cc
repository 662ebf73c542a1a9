#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(MatMulRulesTest, ATransposedWeightSwapsItsSplits) {
  EXPECT_THAT(
      SignatureTexts("matmul", "", "f32[2,4,6] f32[6,8]", "f32[2,4,8]", 2),
      ElementsAre("S(0),B->S(0)", "S(1),B->S(1)", "S(2),S(0)->P", "B,S(1)->S(2)", "P,B->P", "B,P->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("matmul", "", "f32[4,6] f32[8,6]", "f32[4,8]", 2, {{"transpose_b", true}}),
              ElementsAre("S(0),B->S(0)", "S(1),S(1)->P", "B,S(0)->S(1)", "P,B->P", "B,P->P", "B,B->B"));
}

TEST(MatMulRulesTest, AWeightGradientSumsOverSamples) {
  EXPECT_THAT(SignatureTexts("matmul_wgrad", "", "f32[4,6] f32[4,8]", "f32[6,8]", 2),
              ElementsAre("S(0),S(0)->P", "S(1),B->S(0)", "B,S(1)->S(1)", "P,B->P", "B,P->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("matmul_wgrad", "", "f32[4,6] f32[4,8]", "f32[8,6]", 2, {{"transpose", true}}),
              ElementsAre("S(0),S(0)->P", "S(1),B->S(1)", "B,S(1)->S(0)", "P,B->P", "B,P->P", "B,B->B"));
}

TEST(MatMulRulesTest, ABatchedProductMayTransposeEither) {
  EXPECT_THAT(
      SignatureTexts("batch_matmul", "", "f32[3,6,4] f32[3,8,6]", "f32[3,4,8]", 2,
                     {{"transpose_a", true}, {"transpose_b", true}}),
      ElementsAre("S(0),S(0)->S(0)", "S(1),S(2)->P", "S(2),B->S(1)", "B,S(1)->S(2)", "P,B->P", "B,P->P", "B,B->B"));
}

}  // namespace
}  // namespace oneflow
