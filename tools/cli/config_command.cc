// `oneflow config` and `oneflow models`: what a job config may say.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/models/model.h"
#include "proto/job.pb.h"
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

// "gpt  reads text", what it is, and its fields.
std::string ModelText(const ModelDef& model) {
  const google::protobuf::Descriptor& message = *pb::Model::descriptor()->FindFieldByName(model.name)->message_type();
  return absl::StrCat(model.name, "  reads ", absl::StrJoin(model.reads, " or "), "\n", CommentOf(message), "\n\n",
                      FieldsText(FieldsOf(message, absl::StrCat("model.", model.name, "."))));
}

absl::Status PrintModels(const std::string& name) {
  std::vector<std::string> texts, names;
  for (const ModelDef& model : Models()) {
    names.push_back(model.name);
    if (name.empty() || name == model.name) texts.push_back(ModelText(model));
  }
  if (texts.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no model '", name, "'; there are ", absl::StrJoin(names, ", "),
                                            " and graphs of your own (model.graph)"));
  }
  std::cout << absl::StrJoin(texts, "\n");
  return absl::OkStatus();
}

RunFunction DeclareModels(CLI::App& app, ParsedArguments& arguments) {
  std::string& name = arguments.New<std::string>();
  app.add_option("name", name, "only this one");
  return [&name] { return Report(PrintModels(name)); };
}

RunFunction DeclareFields(CLI::App& app, ParsedArguments& arguments) {
  std::string& prefix = arguments.New<std::string>();
  app.add_option("prefix", prefix, "only this field and those in it: \"train\", \"model.gpt.layers\"");
  return [&prefix] { return Report(PrintFields(prefix)); };
}

}  // namespace

std::vector<Command> ConfigCommands() {
  return {
      {"config",
       "say what a job config may hold",
       nullptr,
       {{"fields", "list fields with their types, the values that are allowed, defaults and meanings", DeclareFields}}},
      {"models", "list the models that a job config can name, with their fields", DeclareModels}};
}

}  // namespace oneflow
