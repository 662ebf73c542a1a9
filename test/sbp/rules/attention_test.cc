#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

constexpr char kQkv[] = "f32[8,16,32] f32[8,16,32] f32[8,16,32]";
const AttrMap kFourHeads = {{"heads", int64_t{4}}};

TEST(AttentionRulesTest, SamplesAndWholeHeadsAreIndependent) {
  EXPECT_THAT(SignatureTexts("attention", "", kQkv, "f32[8,16,32] f32[8,4,16]", 2, kFourHeads),
              ElementsAre("S(0),S(0),S(0)->S(0),S(0)", "S(2),S(2),S(2)->S(2),S(1)", "B,B,B->B,B"));
  EXPECT_THAT(SignatureTexts("attention", "", kQkv, "f32[8,16,32] f32[8,4,16]", 3, kFourHeads),
              ElementsAre("S(0),S(0),S(0)->S(0),S(0)", "B,B,B->B,B"));
}

TEST(AttentionRulesTest, HeadsComeFirstWhereSamplesAreTooFew) {
  EXPECT_THAT(SignatureTexts("attention", "", "f32[1,16,32] f32[1,16,32] f32[1,16,32]", "f32[1,16,32] f32[1,4,16]", 2,
                             kFourHeads),
              ElementsAre("S(2),S(2),S(2)->S(2),S(1)", "S(0),S(0),S(0)->S(0),S(0)", "B,B,B->B,B"));
}

TEST(AttentionRulesTest, TheGradientIsSplitAsTheForwardIs) {
  EXPECT_THAT(SignatureTexts("attention_grad", "",
                             "f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,4,16]", kQkv, 4,
                             kFourHeads),
              ElementsAre("S(0),S(0),S(0),S(0),S(0),S(0)->S(0),S(0),S(0)",
                          "S(2),S(2),S(2),S(2),S(2),S(1)->S(2),S(2),S(2)", "B,B,B,B,B,B->B,B,B"));
}

TEST(AttentionRulesTest, AllHeadsHaveTheSameDocuments) {
  const std::string documents = " i32[8,16] i32[8,16]";
  EXPECT_THAT(SignatureTexts("attention", "", kQkv + documents, "f32[8,16,32] f32[8,4,16]", 4, kFourHeads),
              ElementsAre("S(0),S(0),S(0),S(0),S(0)->S(0),S(0)", "S(2),S(2),S(2),B,B->S(2),S(1)", "B,B,B,B,B->B,B"));
  EXPECT_THAT(SignatureTexts("attention_grad", "",
                             "f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,4,16]" +
                                 documents + " f32[8,4,16]",
                             kQkv, 4, kFourHeads),
              ElementsAre("S(0),S(0),S(0),S(0),S(0),S(0),S(0),S(0),S(0)->S(0),S(0),S(0)",
                          "S(2),S(2),S(2),S(2),S(2),S(1),B,B,S(1)->S(2),S(2),S(2)", "B,B,B,B,B,B,B,B,B->B,B,B"));
}

}  // namespace
}  // namespace oneflow
