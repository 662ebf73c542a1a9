#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(BatchNormRulesTest, StatisticsOfASplitBatchAreAddends) {
  EXPECT_THAT(SignatureTexts("channel_variance", "", "f32[4,6,8] f32[6]", "f32[6]", 2),
              ElementsAre("S(0),B->P", "S(1),S(0)->S(0)", "S(2),B->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("batch_norm_sums", "", "f32[4,6] f32[4,6] f32[6] f32[6]", "f32[6] f32[6]", 2),
              ElementsAre("S(0),S(0),B,B->P,P", "S(1),S(1),S(0),S(0)->S(0),S(0)", "P,B,B,B->P,P", "B,B,B,B->B,B"));
}

TEST(BatchNormRulesTest, EveryDimensionMayBeSplit) {
  EXPECT_THAT(
      SignatureTexts("batch_norm", "", "f32[4,6,8] f32[6] f32[6] f32[6] f32[6]", "f32[4,6,8]", 2),
      ElementsAre("S(0),B,B,B,B->S(0)", "S(1),S(0),S(0),S(0),S(0)->S(1)", "S(2),B,B,B,B->S(2)", "B,B,B,B,B->B"));
}

TEST(BatchNormRulesTest, AnAddendOfTheGradientNeedsTheAddendsOfItsSums) {
  EXPECT_THAT(
      SignatureTexts("batch_norm_dx", "", "f32[4,6] f32[4,6] f32[6] f32[6] f32[6] f32[6] f32[6]", "f32[4,6]", 2),
      ElementsAre("S(0),S(0),B,B,B,B,B->S(0)", "S(1),S(1),S(0),S(0),S(0),S(0),S(0)->S(1)", "P,B,B,B,B,P,P->P",
                  "B,B,B,B,B,B,B->B"));
}

}  // namespace
}  // namespace oneflow
