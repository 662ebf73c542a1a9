#include "sbp/signatures.h"

#include "test/sbp/signature_texts.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(SignaturesTest, AMatmulHasTheSixOfTheOneFlowPaper) {
  EXPECT_THAT(SignatureTexts("product", "mk,kn->mn; linear 0; linear 1", "f32[4,6] f32[6,8]", "f32[4,8]", 2),
              ElementsAre("S(0),B->S(0)", "S(1),S(0)->P", "B,S(1)->S(1)", "P,B->P", "B,P->P", "B,B->B"));
}

TEST(SignaturesTest, EachSaysWhyItHolds) {
  OpDef op;
  op.name = "product";
  op.rule = "mk,kn->mn; linear 0";
  ASSERT_OK_AND_ASSIGN(const auto signatures, Signatures1d(op, Types("f32[4,6] f32[6,8]"), Types("f32[4,8]"), {}, 2));
  std::vector<std::string> reasons;
  for (const Signature& signature : signatures) reasons.push_back(signature.reason);
  EXPECT_THAT(reasons, ElementsAre("letter m", "letter k", "letter n", "linear 0", "broadcast"));
}

TEST(SignaturesTest, BroadcastDimensionsStayB) {
  EXPECT_THAT(SignatureTexts("sum", "...,...->...; linear 0 1", "f32[4,6] f32[6]", "f32[4,6]", 2),
              ElementsAre("S(0),B->S(0)", "S(1),S(0)->S(1)", "P,P->P", "B,B->B"));
  EXPECT_THAT(SignatureTexts("sum", "...,...->...; linear 0 1", "f32[4,1] f32[4,6]", "f32[4,6]", 2),
              ElementsAre("S(0),S(0)->S(0)", "B,S(1)->S(1)", "P,P->P", "B,B->B"));
}

TEST(SignaturesTest, WholeLettersAreNeverSplit) {
  EXPECT_THAT(SignatureTexts("norm", "...c->...c; whole c", "f32[4,6]", "f32[4,6]", 2),
              ElementsAre("S(0)->S(0)", "B->B"));
}

TEST(SignaturesTest, ReducedLettersGiveThePartialOfTheirMark) {
  EXPECT_THAT(SignatureTexts("r", "mk->m; max k", "f32[4,6]", "f32[4]", 2),
              ElementsAre("S(0)->S(0)", "S(1)->P(max)", "B->B"));
  EXPECT_THAT(SignatureTexts("r", "mk->m; min k", "f32[4,6]", "f32[4]", 2),
              ElementsAre("S(0)->S(0)", "S(1)->P(min)", "B->B"));
  EXPECT_THAT(SignatureTexts("r", "...->", "f32[4]", "f32[]", 2), ElementsAre("S(0)->P", "B->B"));
}

TEST(SignaturesTest, AnOutputWithoutTheLetterOfAnotherIsPartial) {
  EXPECT_THAT(SignatureTexts("layer_norm_grad", "...c,...c,c,...,...->...c,c,c; whole c; linear 0",
                             "f32[4,6] f32[4,6] f32[6] f32[4] f32[4]", "f32[4,6] f32[6] f32[6]", 2),
              ElementsAre("S(0),S(0),B,S(0),S(0)->S(0),P,P", "P,B,B,B,B->P,P,P", "B,B,B,B,B->B,B,B"));
}

TEST(SignaturesTest, LettersThatOnlyOutputsHaveLeaveTheInputsWhole) {
  EXPECT_THAT(SignatureTexts("embedding_grad", "...h,...->vh; linear 0", "f32[4,6] i32[4]", "f32[9,6]", 2),
              ElementsAre("S(0),S(0)->P", "S(1),B->S(1)", "B,B->S(0)", "P,B->P", "B,B->B"));
  // An output that lacks such a letter is computed in full by every rank.
  EXPECT_THAT(SignatureTexts("two", "->v,", "f32[]", "f32[9] f32[]", 2), ElementsAre("B->S(0),B", "B->B,B"));
}

TEST(SignaturesTest, OpsWithoutOutputsHaveInputsOnly) {
  EXPECT_THAT(SignatureTexts("update", "...,...,->", "f32[4,6] f32[4,6] f32[]", "", 2),
              ElementsAre("S(0),S(0),B->", "S(1),S(1),B->", "B,B,B->"));
  EXPECT_THAT(SignatureTexts("increment", "...->", "i64[]", "", 2), ElementsAre("B->"));
}

TEST(SignaturesTest, LettersTooSmallForTheAxisComeLastButOne) {
  EXPECT_THAT(SignatureTexts("r", "...->...; linear 0", "f32[3,8]", "f32[3,8]", 4),
              ElementsAre("S(1)->S(1)", "P->P", "S(0)->S(0)", "B->B"));
}

TEST(SignaturesTest, ScalarsHaveNothingToSplit) {
  EXPECT_THAT(SignatureTexts("s", "->,", "f32[]", "f32[] f32[]", 2), ElementsAre("B->B,B"));
}

TEST(SignaturesTest, TypesThatWrapAreNeverPartial) {
  EXPECT_THAT(SignatureTexts("id", "...->...; linear 0", "u8[4]", "u8[4]", 2), ElementsAre("S(0)->S(0)", "B->B"));
  EXPECT_THAT(SignatureTexts("id", "...->...; linear 0", "i64[4]", "i64[4]", 2),
              ElementsAre("S(0)->S(0)", "P->P", "B->B"));
}

TEST(SignaturesTest, ABadRuleIsOurBugAndNamesTheOp) {
  OpDef op;
  op.name = "odd";
  op.rule = "mk";
  EXPECT_THAT(Signatures1d(op, Types("f32[2]"), Types("f32[2]"), {}, 2),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("op 'odd': rule 'mk', position 0")));
  op.rule = "";
  EXPECT_THAT(Signatures1d(op, Types("f32[2]"), Types("f32[2]"), {}, 2),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("op 'odd': it has neither")));
}

TEST(SignaturesTest, ANodeIsNamedInErrorsAndTypedByItsGraph) {
  OpRegistry ops;
  OpDef op;
  op.name = "half";
  op.rule = "...->...";
  op.infer = [](const InferContext& c) -> absl::StatusOr<std::vector<TensorType>> {
    return std::vector<TensorType>(c.inputs.begin(), c.inputs.end());
  };
  ops.Add(op);
  Graph graph;
  const TensorType type{DType::kFloat32, {4}};
  Node source{.op = "unknown", .name = "x", .source = "model.cc:1"};
  graph.AddNode(source, {type});
  Node node{.op = "half", .name = "y", .inputs = {0}};
  const NodeId id = graph.AddNode(node, {type});
  ASSERT_OK_AND_ASSIGN(const auto signatures, Signatures1d(ops, graph, id, 2));
  EXPECT_EQ(signatures[0].ToString(), "S(0)->S(0)");
  EXPECT_THAT(Signatures1d(ops, graph, 0, 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x'")));
}

TEST(SignaturesTest, AxesThatShareAnIndivisibleSplitAreCheckedTogether) {
  OpDef op;
  op.name = "attention";
  const auto qkv = Types("f32[8,16,32] f32[8,16,32] f32[8,16,32]"), out = Types("f32[8,16,32] f32[8,4,16]");
  const AttrMap attrs = {{"heads", int64_t{4}}};
  ASSERT_OK_AND_ASSIGN(const auto of_two, Signatures1d(op, qkv, out, attrs, 2));
  const Signature batch = of_two[0], heads = of_two[1];
  ASSERT_EQ(heads.ToString(), "S(2),S(2),S(2)->S(2),S(1)");
  EXPECT_OK(CheckNdSignature(op, qkv, out, attrs, {2, 2}, {heads, heads}));
  EXPECT_OK(CheckNdSignature(op, qkv, out, attrs, {2, 4}, {batch, heads}));
  EXPECT_THAT(
      CheckNdSignature(op, qkv, out, attrs, {2, 4}, {heads, heads}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("S(2),S(2),S(2)->S(2),S(1) on 8 ranks (axes of 2,4)")));
  EXPECT_THAT(CheckNdSignature(op, qkv, out, attrs, {3}, {heads}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("on 3 ranks")));
}

}  // namespace
}  // namespace oneflow
