#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

constexpr char kQkv[] = "f32[8,16,32] f32[8,16,32] f32[8,16,32]";
constexpr char kRing[] = "S(1),S(1),S(1)->S(1),S(2)";
const AttrMap kFourHeads = {{"heads", int64_t{4}}};

TEST(AttentionRulesTest, SamplesAndWholeHeadsAreIndependent) {
  EXPECT_THAT(SignatureTexts("attention", "", kQkv, "f32[8,16,32] f32[8,4,16]", 2, kFourHeads),
              ElementsAre("S(0),S(0),S(0)->S(0),S(0)", "S(2),S(2),S(2)->S(2),S(1)", kRing, "B,B,B->B,B"));
  EXPECT_THAT(SignatureTexts("attention", "", kQkv, "f32[8,16,32] f32[8,4,16]", 3, kFourHeads),
              ElementsAre("S(0),S(0),S(0)->S(0),S(0)", kRing, "B,B,B->B,B"));
}

TEST(AttentionRulesTest, HeadsComeFirstWhereSamplesAreTooFew) {
  EXPECT_THAT(SignatureTexts("attention", "", "f32[1,16,32] f32[1,16,32] f32[1,16,32]", "f32[1,16,32] f32[1,4,16]", 2,
                             kFourHeads),
              ElementsAre("S(2),S(2),S(2)->S(2),S(1)", "S(0),S(0),S(0)->S(0),S(0)", kRing, "B,B,B->B,B"));
}

TEST(AttentionRulesTest, TheGradientIsSplitAsTheForwardIs) {
  EXPECT_THAT(
      SignatureTexts("attention_grad", "",
                     "f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,4,16]", kQkv, 4,
                     kFourHeads),
      ElementsAre("S(0),S(0),S(0),S(0),S(0),S(0)->S(0),S(0),S(0)", "S(2),S(2),S(2),S(2),S(2),S(1)->S(2),S(2),S(2)",
                  "S(1),S(1),S(1),S(1),S(1),S(2)->S(1),S(1),S(1)", "B,B,B,B,B,B->B,B,B"));
}

// A ring needs tokens for every rank.
TEST(AttentionRulesTest, TokensAreDividedInARingOnly) {
  const OpRegistry ops = StandardOps();
  const OpDef& op = *ops.Find("attention");
  const auto rings = [&](int64_t tokens, int64_t keys) {
    const TensorType q = {DType::kFloat32, {8, tokens, 32}}, k = {DType::kFloat32, {8, keys, 32}};
    const absl::StatusOr<std::vector<Signature>> all =
        Signatures1d(op, {q, k, k}, {q, {DType::kFloat32, {8, 4, tokens}}}, kFourHeads, 4);
    return std::count_if(all->begin(), all->end(), [](const Signature& signature) {
      EXPECT_EQ(signature.is_ring, signature.ToString() == kRing);
      return signature.is_ring;
    });
  };
  EXPECT_EQ(rings(16, 16), 1);
  EXPECT_EQ(rings(16, 4), 1);
  EXPECT_EQ(rings(16, 3), 0);
  EXPECT_EQ(rings(3, 16), 0);
}

TEST(AttentionRulesTest, AllHeadsHaveTheSameDocuments) {
  const std::string documents = " i32[8,16] i32[8,16]";
  EXPECT_THAT(SignatureTexts("attention", "", kQkv + documents, "f32[8,16,32] f32[8,4,16]", 4, kFourHeads),
              ElementsAre("S(0),S(0),S(0),S(0),S(0)->S(0),S(0)", "S(2),S(2),S(2),B,B->S(2),S(1)",
                          "S(1),S(1),S(1),S(1),S(1)->S(1),S(2)", "B,B,B,B,B->B,B"));
  EXPECT_THAT(SignatureTexts("attention_grad", "",
                             "f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,16,32] f32[8,4,16]" +
                                 documents + " f32[8,4,16]",
                             kQkv, 4, kFourHeads),
              ElementsAre("S(0),S(0),S(0),S(0),S(0),S(0),S(0),S(0),S(0)->S(0),S(0),S(0)",
                          "S(2),S(2),S(2),S(2),S(2),S(1),B,B,S(1)->S(2),S(2),S(2)",
                          "S(1),S(1),S(1),S(1),S(1),S(2),S(1),S(1),S(2)->S(1),S(1),S(1)", "B,B,B,B,B,B,B,B,B->B,B,B"));
}

}  // namespace
}  // namespace oneflow
