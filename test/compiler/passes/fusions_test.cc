// The table of fusions: how its calls are written, and that every row says the same on both sides.
#include "oneflow_core/fusions.h"

#include <algorithm>
#include <map>
#include <set>

#include "oneflow_core/fused_form.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"
#include "test/support/op_facts.h"

namespace oneflow::testing {
namespace {

TEST(FusionsTest, CallsAreReadAsTheyAreWritten) {
  ASSERT_OK_AND_ASSIGN(const auto calls, ParseCalls("a, b = f(x); y = g(a, b)"));
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_THAT(calls[0].outputs, ElementsAre("a", "b"));
  EXPECT_EQ(calls[0].op, "f");
  EXPECT_THAT(calls[1].inputs, ElementsAre("a", "b"));
  EXPECT_FALSE(calls[0].attributes.has_value());
  ASSERT_OK_AND_ASSIGN(const auto some, ParseCalls("y = f{}(x); z = g{a, b: c}(y)"));
  EXPECT_THAT(*some[0].attributes, IsEmpty());
  ASSERT_THAT(*some[1].attributes, SizeIs(2));
  EXPECT_EQ((*some[1].attributes)[0].in_whole, "a");
  EXPECT_EQ((*some[1].attributes)[1].name, "b");
  EXPECT_EQ((*some[1].attributes)[1].in_whole, "c");
  ASSERT_OK_AND_ASSIGN(const auto fixed, ParseCalls("y = f{a=false, b=[last], c: d}(x)"));
  ASSERT_THAT(*fixed[0].attributes, SizeIs(3));
  EXPECT_EQ((*fixed[0].attributes)[0].fixed, "false");
  EXPECT_EQ((*fixed[0].attributes)[0].in_whole, "");
  EXPECT_EQ((*fixed[0].attributes)[1].fixed, "[last]");
  EXPECT_THAT(*ParseCalls(""), IsEmpty());
  for (const auto& [text, says] : std::map<std::string, std::string>{{"y = f(x", "expected ')' after the inputs"},
                                                                     {"y f(x)", "expected '=' after the outputs"},
                                                                     {"y = f(x) z", "expected ';' but found 'z'"},
                                                                     {"y = (x)", "expected an op"},
                                                                     {"y = f{a b}(x)", "expected '}'"},
                                                                     {"y = f{a: }(x)", "expected a name"},
                                                                     {"y = f{a=}(x)", "expected a value"},
                                                                     {"y = f{a=[first]}(x)", "expected 'last'"},
                                                                     {"y = f()", "expected a value"}}) {
    EXPECT_THAT(ParseCalls(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
  }
}

// Values by their names in a row.
using Named = std::map<std::string, RefTensor>;

TypesByName TypesOf(const Named& values) {
  TypesByName types;
  for (const auto& [name, value] : values) types[name] = TypeOf(value);
  return types;
}

// Adds what a call gives for values that are there. `of_whole`: the attributes that the whole has.
void Compute(const PatternCall& call, const AttrMap& of_whole, Named& values) {
  std::vector<RefTensor> inputs;
  for (const std::string& name : call.inputs) inputs.push_back(values.at(name));
  ASSERT_OK_AND_ASSIGN(const std::vector<RefTensor> outputs,
                       Reference(call.op, AttributesOfPart(call, of_whole, TypesOf(values)), inputs));
  ASSERT_EQ(outputs.size(), call.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) values[call.outputs[i]] = outputs[i];
}

// The whole of a composite is an op of its own, which its parts have to be. (Of other rows it follows from the parts.)
TEST(FusionsTest, EveryCompositeIsWhatItsPartsAre) {
  const std::vector<OpCase> cases = Examples(1);
  int composites = 0;
  for (const Fusion& row : Fusions()) {
    if (!row.row->composite) continue;
    SCOPED_TRACE(row.made_of);
    int tried = 0;
    for (const OpCase& c : cases) {
      if (c.op != row.whole.op) continue;
      Named whole, parts;
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        whole[row.whole.inputs[i]] = parts[row.whole.inputs[i]] = c.inputs[i];
      }
      for (const PatternCall& call : row.parts) Compute(call, c.attrs, parts);
      Compute(row.whole, c.attrs, whole);
      for (const std::string& name : row.whole.outputs) {
        ASSERT_EQ(whole[name].dims, parts[name].dims) << name;
        for (int64_t i = 0; i < whole[name].count(); ++i) {
          ASSERT_NEAR(whole[name].values[i], parts[name].values[i], 1e-5) << name;  // as f32 is rounded in between
        }
      }
      ++tried;
    }
    EXPECT_GE(tried, 1) << "examples of " << row.whole.op;
    ++composites;
  }
  EXPECT_EQ(composites, 4);
}

// Else a match would not know what its parts are.
TEST(FusionsTest, EveryPartButTheLastIsReadByALaterOneOrReadsWhatThatDoes) {
  for (const Fusion& row : Fusions()) {
    SCOPED_TRACE(row.made_of);
    std::set<std::string> read(row.parts.back().inputs.begin(), row.parts.back().inputs.end());
    for (size_t i = row.parts.size() - 1; i-- > 0;) {
      const std::vector<std::string>&outputs = row.parts[i].outputs, &inputs = row.parts[i].inputs;
      const auto is_read = [&](const auto& name) { return read.count(name) > 0; };
      EXPECT_TRUE(std::any_of(outputs.begin(), outputs.end(), is_read) ||
                  std::any_of(inputs.begin(), inputs.end(), is_read));
      read.insert(inputs.begin(), inputs.end());
    }
    for (const PatternCall& call : row.given) {
      EXPECT_TRUE(
          std::any_of(call.outputs.begin(), call.outputs.end(), [&](const auto& n) { return read.count(n) > 0; }));
    }
  }
  for (const FusionRow& row : FusionRows()) EXPECT_THAT(row.saves, Not(IsEmpty())) << row.parts;
}

}  // namespace
}  // namespace oneflow::testing
