// Every op of the standard set has signatures: by its rule text, which the parser accepts as the contract prints it, or
// by a rule of its own.
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "oneflow_core/ops/ops.h"
#include "sbp/rules/rules.h"
#include "test/sbp/signature_texts.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

// Operands that fit the text: every letter has a size of its own, "..." stands for two dimensions.
std::vector<TensorType> OperandsOf(absl::string_view side) {
  std::vector<TensorType> types;
  for (absl::string_view operand : absl::StrSplit(side, ',')) {
    std::vector<int64_t> dims;
    if (absl::ConsumePrefix(&operand, "...")) dims = {2, 4};
    for (char letter : operand) dims.push_back(letter - 'a' + 5);
    types.push_back({DType::kFloat32, Shape(dims)});
  }
  return types;
}

// {op, rule text} of every rule text in the op table. An op may have several.
std::vector<std::pair<std::string, std::string>> RulesOfTheContract() {
  std::ifstream file(SourceDir() + "/oneflow_core/ops/README.md");
  std::vector<std::pair<std::string, std::string>> rules;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() < 6) continue;
    const std::vector<std::string> names = absl::StrSplit(cells[1], '`'), texts = absl::StrSplit(cells[4], '`');
    for (size_t n = 1; n < names.size(); n += 2) {
      for (size_t t = 1; t < texts.size(); t += 2) {
        if (texts[t].find("->") != std::string::npos) rules.push_back({names[n], texts[t]});
      }
    }
  }
  return rules;
}

TEST(RuleTableTest, TheParserAcceptsEveryRuleOfTheContractAsItIsPrinted) {
  const auto rules = RulesOfTheContract();
  EXPECT_GT(rules.size(), 40);
  for (const auto& [op, rule] : rules) {
    const std::string text = rule.substr(0, rule.find(';'));
    const size_t arrow = text.find("->");
    const absl::string_view in(text.data(), arrow);
    const absl::string_view out(text.data() + arrow + 2, text.size() - arrow - 2);
    // An empty right side may be no output at all.
    EXPECT_OK(ParseFactorRule(rule, OperandsOf(in), OperandsOf(out))) << op;
    if (out.empty()) {
      EXPECT_OK(ParseFactorRule(rule, OperandsOf(in), {})) << op;
    }
  }
}

TEST(RuleTableTest, EveryStandardOpHasARuleTextOrARuleOfItsOwnOrPartsOrStaysOnItsRanks) {
  const auto contract = RulesOfTheContract();
  const OpRegistry ops = StandardOps();
  EXPECT_GT(ops.all().size(), 60);
  for (const auto& [name, op] : ops.all()) {
    EXPECT_TRUE(!op.rule.empty() || op.rule_for != nullptr || FindRule(name) != nullptr || op.forms != nullptr ||
                RunsOnOneRank(op) || op.kind == OpKind::kLoad || op.kind == OpKind::kStore)
        << name;
    EXPECT_TRUE(op.forms == nullptr || (op.rule.empty() && op.rule_for == nullptr && FindRule(name) == nullptr))
        << name;
    if (!op.rule.empty()) {
      EXPECT_THAT(contract, Contains(std::make_pair(name, op.rule)));
    }
  }
}

TEST(RuleTableTest, EveryRuleOfTheTableBelongsToAStandardOp) {
  const OpRegistry ops = StandardOps();
  const std::vector<rules::OpRule> all = AllRules();
  EXPECT_GT(all.size(), 25);
  for (const rules::OpRule& it : all) {
    ASSERT_NE(ops.Find(it.op), nullptr) << it.op;
    EXPECT_EQ(FindRule(it.op), it.rule) << it.op << " is listed twice";
  }
  EXPECT_EQ(FindRule("relu"), nullptr);
}

// Signatures of a standard op on inputs of these types.
std::vector<std::string> Of(const std::string& name, const std::string& inputs, int axis_size,
                            const AttrMap& attrs = {}) {
  const OpRegistry ops = StandardOps();
  const auto types = ::oneflow::testing::Types(inputs);
  const auto op = ops.Get(name);
  EXPECT_OK(op);
  const auto outputs = (*op)->infer({types, attrs});
  EXPECT_OK(outputs);
  std::vector<std::string> texts;
  const auto signatures = Signatures1d(**op, types, *outputs, attrs, axis_size);
  EXPECT_OK(signatures);
  for (const Signature& signature : *signatures) texts.push_back(signature.ToString());
  return texts;
}

TEST(RuleTableTest, TheLayersOfATransformerHaveMegatronsSignatures) {
  EXPECT_THAT(Of("matmul", "f32[8,16,32] f32[32,64]", 2), Contains("B,S(1)->S(2)"));  // column parallel
  EXPECT_THAT(Of("matmul", "f32[8,16,64] f32[64,32]", 2), Contains("S(2),S(0)->P"));  // row parallel
  EXPECT_THAT(Of("embedding", "f32[256,32] i32[8,16]", 2),
              ElementsAre("S(0),B->P", "S(1),B->S(2)", "B,S(0)->S(0)", "B,S(1)->S(1)", "P,B->P", "B,B->B"));
  EXPECT_THAT(Of("layer_norm", "f32[8,16,32] f32[32] f32[32]", 2, {{"epsilon", 1e-5}}),
              ElementsAre("S(0),B,B->S(0),S(0),S(0)", "S(1),B,B->S(1),S(1),S(1)", "B,B,B->B,B,B"));
  EXPECT_THAT(Of("relu", "f32[8,16]", 2), Not(Contains("P->P")));
}

TEST(RuleTableTest, TheClassesOfASoftmaxMayBeSplitBetweenItsParts) {
  EXPECT_THAT(Of("softmax_sums", "f32[8,256] i32[8] f32[8]", 2),
              ElementsAre("S(0),S(0),S(0)->S(0),S(0)", "S(1),B,B->P,P", "B,B,B->B,B"));
  EXPECT_THAT(Of("softmax_apply", "f32[8,256] f32[8] f32[8]", 2),
              ElementsAre("S(0),S(0),S(0)->S(0)", "S(1),B,B->S(1)", "B,B,B->B"));
  EXPECT_THAT(Of("first_index", "f32[8,256] f32[8]", 2), ElementsAre("S(0),S(0)->S(0)", "S(1),B->P(min)", "B,B->B"));
}

TEST(RuleTableTest, ColumnsByIndexAreAddends) {
  EXPECT_THAT(Of("take_along", "f32[8,256] i32[8,4]", 2),
              ElementsAre("S(0),S(0)->S(0)", "S(1),B->P", "B,S(1)->S(1)", "P,B->P", "B,B->B"));
  EXPECT_THAT(Of("put_along", "f32[8,4] i32[8,4]", 2, {{"columns", int64_t{256}}}),
              ElementsAre("S(0),S(0)->S(0)", "S(1),S(1)->P", "B,B->S(1)", "P,B->P", "B,B->B"));
  EXPECT_THAT(Of("top_k", "f32[8,256]", 2, {{"k", int64_t{4}}}), ElementsAre("S(0)->S(0),S(0)", "B->B,B"));
}

TEST(RuleTableTest, ConvolutionsSplitChannelsToo) {
  EXPECT_THAT(Of("conv2d", "f32[8,4,10,10] f32[6,4,3,3]", 2, {{"stride", int64_t{1}}, {"padding", int64_t{1}}}),
              ElementsAre("S(0),B->S(0)", "S(1),S(1)->P", "B,S(0)->S(1)", "P,B->P", "B,P->P", "B,B->B"));
}

TEST(RuleTableTest, OptimizersSplitAllTheirStateAlike) {
  EXPECT_THAT(Of("adamw_update", "f32[4,6] f32[4,6] f32[4,6] f32[4,6] f32[] f32[] i64[]", 2,
                 {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}}),
              ElementsAre("S(0),S(0),S(0),S(0),B,B,B->", "S(1),S(1),S(1),S(1),B,B,B->", "B,B,B,B,B,B,B->"));
}

}  // namespace
}  // namespace oneflow
