// `oneflow config`: what a job config may say.
#include <iostream>
#include <string>
#include <vector>

#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/job/field_help.h"

namespace oneflow {
namespace {

absl::Status PrintFields(const std::string& prefix) {
  OF_ASSIGN_OR_RETURN(const std::vector<FieldHelp> fields, ConfigFields(prefix));
  std::cout << FieldsText(fields);
  return absl::OkStatus();
}

RunFunction DeclareFields(CLI::App& app, ParsedArguments& arguments) {
  std::string& prefix = arguments.New<std::string>();
  app.add_option("prefix", prefix, "only this field and those in it: \"train\", \"model.gpt.layers\"");
  return [&prefix] { return Report(PrintFields(prefix)); };
}

}  // namespace

std::vector<Command> ConfigCommands() {
  return {{"config",
           "say what a job config may hold",
           nullptr,
           {{"fields", "list fields with their types, the values that are allowed, defaults and meanings",
             DeclareFields}}}};
}

}  // namespace oneflow
