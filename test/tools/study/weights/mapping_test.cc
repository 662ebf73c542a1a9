#include "tools/study/weights/mapping.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "oneflow_core/models/model.h"
#include "test/support/status_matchers.h"
#include "tools/study/planner/model_size.h"
#include "tools/study/weights/correspondence.h"
#include "tools/study/weights/model_variables.h"

namespace oneflow {
namespace {

// A table with a line more.
std::string TableWith(const std::string& line) {
  return "model: \"gpt\" families { model_type: \"t\" }\nrules { ours: \"h{i}/a\" theirs: \"a.{i}\" }\n" + line;
}

TEST(MappingTest, ThoseOfTheProgramAreGood) {
  const auto mappings = BuiltInMappings();  // which checks that the model has the fields that they name
  ASSERT_OK(mappings);
  std::vector<std::string> names;
  for (const Mapping& mapping : *mappings) names.push_back(mapping.name);
  EXPECT_THAT(names, ::testing::ElementsAre("bert", "gpt2", "llama", "resnet", "vit"));
}

TEST(MappingTest, ThoseOfTheProgramHaveARuleForEachVariable) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Mapping> mappings, BuiltInMappings());
  for (const Mapping& mapping : mappings) {
    const std::string& name = mapping.table.model();
    const std::string small = absl::StrCat("model={", name, " {", FindModel(name)->small, "}}");
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, ConfigOfModel(name, {small}));
    ASSERT_OK_AND_ASSIGN(const JobModel model, ModelOf(std::move(config)));
    ASSERT_OK_AND_ASSIGN(const Correspondence found, Correspond(mapping, model.variables));
    for (const int variable : found.unnamed) ADD_FAILURE() << mapping.name << ": " << model.variables[variable].name;
    EXPECT_FALSE(found.tensors.empty()) << mapping.name;
  }
}

TEST(MappingTest, AFaultyTableIsRefusedWithItsPlace) {
  const std::pair<std::string, const char*> kCases[] = {
      {"model", "mapping 'm':1: "},
      {TableWith("rules { our: \"\" }"), "mapping 'm':3: "},
      {"families { model_type: \"t\" }", "model: is missing"},
      {"model: \"gpt\"", "families: there is none"},
      {"model: \"gpt\" families {} rules {}", "a model_type is missing"},
      {"model: \"gpt\" families { model_type: \"t\" }", "rules: there is none"},
      {TableWith("rules { theirs: \"x\" }"), "'ours' or 'theirs' is missing"},
      {TableWith("rules { ours: \"h{i\" theirs: \"x\" }"), "rule for 'h{i': name 'h{i': braces"},
      {TableWith("rules { ours: \"h{i-1}\" theirs: \"x\" }"), "adds something to a number"},
      {TableWith("rules { ours: \"h{i}\" theirs: \"x{j}\" }"), "has a number that 'h{i}' does not have"},
      {TableWith("rules { ours: \"w\" theirs: \"x\" part { axis: 0 index: 3 of: 3 } }"),
       "part 3 of 3 along axis 0 is none"},
      {TableWith("rules { ours: \"w\" theirs: \"x\" part { axis: -1 index: 0 of: 3 } }"), "along axis -1"},
      {TableWith("rules { ours: \"w\" theirs: \"x\" transpose: true leading_rows: true }"), "leading_rows goes with"},
      {TableWith("fields { ours: \"width\" }"), "'theirs' is missing"},
      {TableWith("fields { theirs: \"n\" }"), "field 'n': says neither"},
      {TableWith("fields { theirs: \"n\" ours: \"widht\" }"), "field 'n': model Gpt has no field 'widht'"},
      {TableWith("fields { theirs: \"n\" ours_unset { of: \"width\" over: \"head\" } }"), "has no field 'head'"},
      {TableWith("fields { theirs: \"n\" ours_unset { of: \"width\" times: -1 } }"), "times -1 is not in"},
      {TableWith("fields { theirs: \"n\" value: \"gelu\" }"), "'gelu' is not JSON"},
      {TableWith("fields { theirs: \"n\" value: \"1\" absent: \"{\" }"), "'{' is not JSON"},
      {TableWith("fields { theirs: \"n\" value: \"1\" values { theirs: \"x\" } }"), "'x' is not JSON"},
      {TableWith("fields { theirs: \"n\" value: \"1\" families: \"u\" }"), "there is no family 'u'"},
      {TableWith("families { model_type: \"u\" where { ours: \"x\" is: \"1\" } }"),
       "family 'u': model Gpt has no field"},
  };
  ASSERT_OK(ParseMapping(TableWith(""), "m"));
  for (const auto& [text, message] : kCases) {
    EXPECT_THAT(ParseMapping(text, "m"),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("mapping 'm'"), HasSubstr(message))))
        << text;
  }
  EXPECT_THAT(ReadMapping("/none"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

TEST(MappingTest, StarsInPatternsStandForSlashesAndDotsToo) {
  EXPECT_TRUE(Matches("*.attn.bias", "h.0.attn.bias"));
  EXPECT_FALSE(Matches("*.attn.bias", "h.0.attn.c_attn.bias"));
  EXPECT_TRUE(Matches("h?/*", "h1/attn/q/weight"));
  EXPECT_FALSE(Matches("head", "head/weight"));
}

}  // namespace
}  // namespace oneflow
