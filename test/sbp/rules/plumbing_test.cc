#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(PlumbingRulesTest, EveryStatePassesWhereNothingIsComputed) {
  for (const char* op : {"to", "stop_gradient", "boxing"}) {
    EXPECT_THAT(SignatureTexts(op, "...->...; linear 0", "f32[4]", "f32[4]", 2),
                ElementsAre("S(0)->S(0)", "P->P", "P(max)->P(max)", "P(min)->P(min)", "B->B"));
  }
}

TEST(PlumbingRulesTest, OpsOfOnePlaceAreReplicated) {
  EXPECT_THAT(SignatureTexts("fetch", "", "f32[4]", "", 2), ElementsAre("B->"));
  EXPECT_THAT(SignatureTexts("sample_token", "", "f32[1,8,16] i32[]", "i32[]", 2), ElementsAre("B,B->B"));
  EXPECT_THAT(SignatureTexts("append_token", "", "i32[1,8] i32[] i32[]", "", 2), ElementsAre("B,B,B->"));
}

}  // namespace
}  // namespace oneflow
