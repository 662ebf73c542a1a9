#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(ElementwiseRulesTest, ACastIsLinearBetweenFloatingTypesOnly) {
  const auto to = [](const std::string& dtype) { return AttrMap{{"dtype", dtype}}; };
  EXPECT_THAT(SignatureTexts("cast", "", "f32[4]", "bf16[4]", 2, to("bf16")), ElementsAre("S(0)->S(0)", "B->B"));
  EXPECT_THAT(SignatureTexts("cast", "", "bf16[4]", "f32[4]", 2, to("f32")), ElementsAre("S(0)->S(0)", "P->P", "B->B"));
  EXPECT_THAT(SignatureTexts("cast", "", "f32[4]", "i32[4]", 2, to("i32")), ElementsAre("S(0)->S(0)", "B->B"));
  EXPECT_THAT(SignatureTexts("cast", "", "i32[4]", "f32[4]", 2, to("f32")), ElementsAre("S(0)->S(0)", "B->B"));
}

TEST(ElementwiseRulesTest, ABiasIsSplitWithItsDimension) {
  EXPECT_THAT(SignatureTexts("bias_add", "", "f32[4,6] f32[6]", "f32[4,6]", 2),
              ElementsAre("S(0),B->S(0)", "S(1),S(0)->S(1)", "P,P->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("bias_add", "", "f32[4,6,5] f32[6]", "f32[4,6,5]", 2, {{"axis", int64_t{1}}}),
              ElementsAre("S(0),B->S(0)", "S(1),S(0)->S(1)", "S(2),B->S(2)", "P,P->P", "B,B->B"));
}

TEST(ElementwiseRulesTest, SumsOfManyAreJointlyLinear) {
  EXPECT_THAT(SignatureTexts("add_n", "", "f32[4] f32[4] f32[4]", "f32[4]", 2),
              ElementsAre("S(0),S(0),S(0)->S(0)", "P,P,P->P", "B,B,B->B"));
}

}  // namespace
}  // namespace oneflow
