#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(SourceRulesTest, VariablesAndConstantsMayBeSplitAnywhere) {
  EXPECT_THAT(SignatureTexts("variable", "", "", "f32[4,6]", 2), ElementsAre("->S(0)", "->S(1)", "->B"));
  EXPECT_THAT(SignatureTexts("constant", "", "", "f32[]", 2), ElementsAre("->B"));
}

TEST(SourceRulesTest, DataIsSplitBySamples) {
  EXPECT_THAT(SignatureTexts("read_data", "", "", "f32[8,3,28,28] i32[8]", 2), ElementsAre("->S(0),S(0)", "->B,B"));
}

}  // namespace
}  // namespace oneflow
