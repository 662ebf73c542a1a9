// What OneFlow lists by hand is derived here. The tables of test/support/ops say so, op by op, in lines of six columns:
//
//   cast(f32[8,4]) {dtype="i32"} | S(0)->S(0) S(1)->S(1) | -         | P->P             | cast_op.cpp      | a sum ...
//   call                         | of both               | more here | of OneFlow alone | OneFlow's source | remark
//
// OneFlow's are the signatures besides all-B that its paper (arXiv 2110.15032, tables 1 and 3) and its source
// (user/ops/, commit 25c8978c) give for an op with operands of these ranks, in this project's words: operands that only
// one side has (a normalisation's statistics, an attention's log-sum-exp) lie as what they belong to. No source: no
// such op there. Ours are complete, so that a line is also the proof of what an op's rule means. Sizes are such that a
// split may be nested on two axes of two.
#include <set>

#include "test/sbp/rules/calls.h"
#include "test/support/names.h"
#include "test/support/op_facts.h"

namespace oneflow::testing {
namespace {

using Texts = std::vector<std::string>;

struct Line {
  std::string call;
  Texts of_both, ours_alone, theirs_alone;
  std::string source, remark;
};

// The signatures of a column, "-" is none.
Texts Column(absl::string_view column) {
  Texts texts = absl::StrSplit(column, ' ', absl::SkipEmpty());
  return texts == Texts{"-"} ? Texts{} : texts;
}

std::vector<Line> Lines() {
  std::vector<Line> lines;
  for (const OpFacts& facts : AllOpFacts()) {
    for (const std::string& text : FactLines(facts.signatures)) {
      Texts columns = absl::StrSplit(text, " | ");
      EXPECT_EQ(columns.size(), 6) << text;
      columns.resize(6);
      lines.push_back({columns[0], Column(columns[1]), Column(columns[2]), Column(columns[3]), columns[4], columns[5]});
    }
  }
  return lines;
}

class OneFlowSignaturesTest : public ::testing::Test {
 protected:
  // Those besides all-B on an axis of two, which is the last.
  Texts Ours(const std::string& text) const {
    const absl::StatusOr<Call> call = ParseCall(ops_, text);
    EXPECT_OK(call);
    if (!call.ok()) return {};
    const auto signatures = Signatures1d(*call->op, call->inputs, call->outputs, call->attrs, 2);
    EXPECT_OK(signatures);
    if (!signatures.ok()) return {};
    EXPECT_EQ(signatures->back().reason, "broadcast");
    Texts texts;
    for (size_t i = 0; i + 1 < signatures->size(); ++i) texts.push_back((*signatures)[i].ToString());
    return texts;
  }

  absl::Status CheckOnTwoAxes(const std::string& text, const std::string& outer, const std::string& inner) const {
    OF_ASSIGN_OR_RETURN(const Call call, ParseCall(ops_, text));
    OF_ASSIGN_OR_RETURN(const Signature first, ParseSignature(outer));
    OF_ASSIGN_OR_RETURN(const Signature second, ParseSignature(inner));
    return CheckNdSignature(*call.op, call.inputs, call.outputs, call.attrs, {2, 2}, {first, second});
  }

  const OpRegistry ops_ = StandardOps();
};

TEST_F(OneFlowSignaturesTest, EveryOneThatItPublishesIsOfferedUnlessItIsListedAsRefused) {
  for (const Line& line : Lines()) {
    const Texts ours = Ours(line.call);
    Texts listed = line.of_both;
    listed.insert(listed.end(), line.ours_alone.begin(), line.ours_alone.end());
    EXPECT_THAT(listed, UnorderedElementsAreArray(ours)) << line.call << ", " << line.source;
    for (const std::string& signature : line.theirs_alone) {
      EXPECT_THAT(ours, Not(Contains(signature))) << line.call << " has it after all, " << line.source;
      EXPECT_NE(line.remark, "-") << "the remark of '" << line.call << "' must say why not";
    }
    EXPECT_EQ(line.source == "-", line.of_both.empty() && line.theirs_alone.empty()) << line.call;
  }
}

// OneFlow's candidates on several axes are the products of those on one.
TEST_F(OneFlowSignaturesTest, EveryPairOfThemIsOfferedOnTwoAxes) {
  for (const Line& line : Lines()) {
    for (const std::string& outer : line.of_both) {
      for (const std::string& inner : line.of_both) EXPECT_OK(CheckOnTwoAxes(line.call, outer, inner)) << line.source;
    }
  }
}

TEST_F(OneFlowSignaturesTest, NoCallIsListedTwice) {
  std::set<std::string> calls;
  for (const Line& line : Lines()) EXPECT_TRUE(calls.insert(line.call).second) << line.call;
  EXPECT_GE(calls.size(), 62);
}

TEST_F(OneFlowSignaturesTest, AMatmulOnTwoAxesHasThoseOfThePapersTable3) {
  struct TwoAxes {
    const char *x, *w, *y;
  };
  for (const TwoAxes& it :
       {TwoAxes{"(S(0),B)", "(B,S(1))", "(S(0),S(1))"}, TwoAxes{"(S(0),S(1))", "(B,S(0))", "(S(0),P)"}}) {
    ASSERT_OK_AND_ASSIGN(const Call call, ParseCall(ops_, "matmul(f32[8,4], f32[4,16])"));
    ASSERT_OK_AND_ASSIGN(const NdSbp x, ParseNdSbp(it.x));
    ASSERT_OK_AND_ASSIGN(const NdSbp w, ParseNdSbp(it.w));
    ASSERT_OK_AND_ASSIGN(const NdSbp y, ParseNdSbp(it.y));
    for (const std::vector<int>& sizes : {std::vector<int>{2, 2}, {2, 3}, {4, 2}}) {
      EXPECT_OK(CheckNdSignature(*call.op, call.inputs, call.outputs, call.attrs, sizes,
                                 {{{x[0], w[0]}, {y[0]}, ""}, {{x[1], w[1]}, {y[1]}, ""}}));
    }
  }
  EXPECT_THAT(CheckOnTwoAxes("matmul(f32[8,4], f32[4,16])", "S(0),B->S(0)", "P,P->P"),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("no signature P,P->P")));
}

}  // namespace
}  // namespace oneflow::testing
