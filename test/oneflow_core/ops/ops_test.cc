// The ops against their contract: the tables of oneflow_core/ops/README.md and of infer_cases.h.
#include "oneflow_core/ops/ops.h"

#include <fstream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "oneflow_core/factor_rule.h"
#include "oneflow_core/ragged.h"
#include "test/oneflow_core/ops/infer_cases.h"
#include "test/support/op_facts.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// A row of the contract: one or more ops that share everything.
struct ContractRow {
  std::string operands;
  std::string rule;  // "" if irregular
  std::string notes;
};

// The text between the first pair of backquotes.
std::string Quoted(absl::string_view cell) {
  const std::vector<absl::string_view> parts = absl::StrSplit(cell, '`');
  return parts.size() < 3 ? "" : std::string(parts[1]);
}

std::map<std::string, ContractRow> ReadContract() {
  std::map<std::string, ContractRow> rows;
  std::ifstream in(SourceDir() + "/oneflow_core/ops/README.md");
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    EXPECT_EQ(cells.size(), 7) << line;
    if (cells.size() != 7) continue;
    ContractRow row{cells[2], Quoted(cells[4]), cells[5]};
    if (!absl::StrContains(row.rule, "->")) row.rule.clear();
    const std::vector<std::string> names = absl::StrSplit(cells[1], '`');
    for (size_t i = 1; i < names.size(); i += 2) EXPECT_TRUE(rows.emplace(names[i], row).second) << names[i];
  }
  return rows;
}

int CountOf(absl::string_view text, absl::string_view word) {
  return static_cast<int>(std::vector<std::string>(absl::StrSplit(text, word)).size()) - 1;
}

TEST(OpsTest, TheRegistryHoldsExactlyTheOpsOfTheContract) {
  const OpRegistry ops = StandardOps();
  std::vector<std::string> names;
  for (const auto& [name, row] : ReadContract()) names.push_back(name);
  EXPECT_GT(names.size(), 50);
  std::vector<std::string> registered;
  for (const auto& [name, def] : ops.all()) {
    if (def.forms == nullptr) registered.push_back(name);  // others are rows of the table of fusions
  }
  EXPECT_THAT(registered, UnorderedElementsAreArray(names));
}

TEST(OpsTest, EveryOpSaysOfItselfWhatTheContractSays) {
  const OpRegistry ops = StandardOps();
  for (const auto& [name, row] : ReadContract()) {
    const OpDef* def = ops.Find(name);
    if (def == nullptr) continue;  // the test above says so
    SCOPED_TRACE(name);
    EXPECT_EQ(def->name, name);
    EXPECT_EQ(def->rule, row.rule);
    EXPECT_EQ(static_cast<int>(def->mutates.size()), CountOf(row.operands, " mut"));
    EXPECT_EQ(def->random, absl::StartsWith(absl::StripAsciiWhitespace(row.notes), "random"));
    EXPECT_EQ(def->has_effect, name == "fetch");
  }
}

TEST(OpsTest, InferenceGivesTheTypesAndTheErrorsOfTheTable) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  for (const testing::InferCase& c : cases) {
    SCOPED_TRACE(c.line);
    const OpDef* def = ops.Find(c.op);
    ASSERT_NE(def, nullptr);
    const absl::StatusOr<std::vector<TensorType>> types = def->infer({c.inputs, c.attrs});
    if (c.error.empty()) {
      ASSERT_OK(types);
      EXPECT_EQ(*types, c.outputs);
    } else {
      EXPECT_THAT(types, testing::StatusIs(absl::StatusCode::kInvalidArgument, c.error));
    }
  }
}

TEST(OpsTest, InferenceGivesTheTypesOfWhatTheReferenceComputes) {
  const OpRegistry ops = StandardOps();
  for (const testing::OpCase& c : testing::Examples(1)) {
    SCOPED_TRACE(testing::ToString(c));
    std::vector<testing::RefTensor> inputs = c.inputs;
    ASSERT_OK_AND_ASSIGN(const std::vector<testing::RefTensor> outputs, testing::Reference(c.op, c.attrs, inputs));
    ASSERT_OK_AND_ASSIGN(const std::vector<TensorType> types,
                         ops.Find(c.op)->infer({testing::TypesOf(c.inputs), c.attrs}));
    EXPECT_EQ(types, testing::TypesOf(outputs));
  }
}

TEST(OpsTest, TheTableHasAGoodAndABadCaseForEveryOp) {
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  std::set<std::string> good, bad;
  for (const testing::InferCase& c : cases) (c.error.empty() ? good : bad).insert(c.op);
  const OpRegistry ops = StandardOps();  // named: a temporary would not live as long as the loop
  for (const auto& [name, def] : ops.all()) {
    EXPECT_TRUE(good.count(name)) << name;
    EXPECT_TRUE(bad.count(name)) << name;
  }
}

// Ops whose inputs may be given any number and any kind of operands must still refuse, not crash.
TEST(OpsTest, NoOpCrashesOnOperandsOfAnotherOp) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  int refused = 0;
  for (const auto& [name, def] : ops.all()) {
    for (const testing::InferCase& c : cases) refused += def.infer({c.inputs, c.attrs}).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

// The output may take the input's memory only if it is as large; where an operand broadcasts, or an addend is of a type
// of its own, the one that fits may.
TEST(OpsTest, AnOpThatWorksInPlaceHasAnInputOfItsOutputsType) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const std::vector<testing::InferCase> cases, testing::InferCases());
  const std::set<std::string> several = {"add",     "sub",       "mul",           "div",         "maximum",
                                         "minimum", "heaviside", "add_relu_grad", "elementwise", "where"};
  for (const testing::InferCase& c : cases) {
    if (!c.error.empty() || several.count(c.op) || c.attrs.Has("out_dtype")) continue;  // another type, another size
    for (const auto& [input, output] : ops.Find(c.op)->in_place) {
      EXPECT_EQ(c.inputs[input].num_bytes(), c.outputs[output].num_bytes()) << c.line;
      EXPECT_EQ(c.inputs[input].dtype, c.outputs[output].dtype) << c.line;
    }
  }
}

TEST(OpsTest, WorkIsCountedInFloatingPointOperations) {
  struct Case {
    std::string op;
    std::vector<TensorType> inputs;
    AttrMap attrs;
    double flops;
  };
  const auto f32 = [](std::initializer_list<int64_t> sizes) { return TensorType{DType::kFloat32, Shape(sizes)}; };
  const TensorType qkv = f32({2, 5, 6}), lse = f32({2, 3, 5});
  const AttrMap window = {{"stride", int64_t{1}}, {"padding", int64_t{0}},       {"height", int64_t{8}},
                          {"width", int64_t{9}},  {"kernel_height", int64_t{5}}, {"kernel_width", int64_t{3}},
                          {"transpose_b", false}};
  const AttrMap heads = {{"heads", int64_t{3}}}, causal = {{"heads", int64_t{3}}, {"causal", true}};
  const double conv = 2.0 * (2 * 4 * 4 * 7) * (3 * 5 * 3);
  const Case kCases[] = {
      {"matmul", {f32({5, 2, 3}), f32({3, 4})}, {}, 2.0 * 10 * 3 * 4},
      {"matmul", {f32({5, 2, 3}), f32({4, 3})}, {{"transpose_b", true}}, 2.0 * 10 * 3 * 4},
      {"matmul_wgrad", {f32({5, 2, 3}), f32({5, 2, 4})}, {}, 2.0 * 10 * 3 * 4},
      {"batch_matmul", {f32({5, 2, 3}), f32({5, 3, 4})}, {}, 2.0 * 5 * 2 * 3 * 4},
      {"batch_matmul", {f32({5, 3, 2}), f32({5, 3, 4})}, {{"transpose_a", true}}, 2.0 * 5 * 2 * 3 * 4},
      {"attention", {qkv, qkv, qkv}, heads, 2 * 2.0 * (2 * 3) * 5 * 5 * 2},
      {"attention", {qkv, qkv, qkv}, causal, 2.0 * (2 * 3) * 5 * 5 * 2},
      {"attention_grad", {qkv, qkv, qkv, qkv, qkv, lse}, heads, 5 * 2.0 * (2 * 3) * 5 * 5 * 2},
      {"conv2d", {f32({2, 3, 8, 9}), f32({4, 3, 5, 3})}, window, conv},
      {"conv2d_dgrad", {f32({2, 4, 4, 7}), f32({4, 3, 5, 3})}, window, conv},
      {"conv2d_wgrad", {f32({2, 3, 8, 9}), f32({2, 4, 4, 7})}, window, conv},
      {"reshape", {f32({2, 3})}, {{"shape", std::vector<int64_t>{6}}}, 0},
      {"square_sum", {f32({2, 3})}, {}, 6},
  };
  const OpRegistry ops = StandardOps();
  for (const Case& c : kCases) {
    const OpDef& def = *ops.Find(c.op);
    ASSERT_NE(def.flops, nullptr) << c.op;
    ASSERT_OK_AND_ASSIGN(const std::vector<TensorType> outputs, def.infer({c.inputs, c.attrs}));
    EXPECT_EQ(def.flops(c.inputs, outputs, c.attrs), c.flops) << c.op;
  }
}

TEST(OpsTest, AnOpThatDoesNotCountItsWorkComputesEveryOutputOnce) {
  const OpRegistry ops = StandardOps();
  const TensorType x{DType::kFloat32, {4, 6}}, w{DType::kFloat32, {6, 5}}, y{DType::kFloat32, {4, 5}};
  EXPECT_EQ(FlopsOf(*ops.Find("relu"), {x}, {x}, {}), 24);
  EXPECT_EQ(FlopsOf(*ops.Find("matmul"), {x, w}, {y}, {}), 2 * 4 * 6 * 5);
}

// A factor rule names dimensions by letters. Of all ops, whatever else is wrong with what they are given.
TEST(OpsTest, MoreDimensionsThanLettersAreRefused) {
  const OpRegistry ops = StandardOps();
  const std::vector<int64_t> many(kMaxDims + 1, 1), most(kMaxDims, 1);
  for (const auto& [name, op] : ops.all()) {
    for (size_t inputs = 0; inputs <= 8; ++inputs) {
      const std::vector<TensorType> types(inputs, {DType::kFloat32, Shape(many)});
      const AttrMap attrs = {{"dtype", std::string("f32")},
                             {"shape", many},
                             {"init", std::string("zeros")},
                             {"value", 1.0},
                             {"axes", std::vector<int64_t>{0}}};
      const absl::Status status = InferTypes(op, {types, attrs}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << " of " << inputs << ": " << status;
      if (inputs == 0) continue;
      EXPECT_THAT(status.message(), HasSubstr("27 dimensions")) << name;
    }
  }
  EXPECT_THAT(InferTypes(*ops.Find("constant"), {{}, {{"dtype", std::string("f32")}, {"shape", many}, {"value", 1.0}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("output 0 has 27 dimensions")));
  // So many are named.
  const std::vector<TensorType> x = {{DType::kFloat32, Shape(most)}};
  const struct {
    const char* op;
    AttrMap attrs;
    std::vector<TensorType> inputs = {{DType::kFloat32, {}}};
  } kCases[] = {
      {"reduce_sum", {{"axes", std::vector<int64_t>{25}}}},
      {"sum_to", {{"shape", std::vector<int64_t>{1}}}},
      {"bias_grad", {{"axis", int64_t{0}}}},
  };
  for (const auto& c : kCases) {
    const OpDef& op = *ops.Find(c.op);
    ASSERT_OK_AND_ASSIGN(const std::vector<TensorType> y, InferTypes(op, {x, c.attrs}));
    ASSERT_OK_AND_ASSIGN(const auto rule, FactorRuleOf(op, x, y, c.attrs));
    ASSERT_TRUE(rule.has_value()) << c.op;
    EXPECT_EQ(rule->inputs[0].size(), 26u) << c.op;
  }
}

}  // namespace
}  // namespace oneflow
