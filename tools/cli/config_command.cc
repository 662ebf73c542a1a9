// `oneflow config` and `oneflow models`: what a job config may say.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/ops/ops.h"
#include "proto/job.pb.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/job/custom.h"
#include "tools/job/field_help.h"
#include "tools/job/job.h"
#include "tools/job/plugins.h"
#include "tools/study/planner/model_size.h"

namespace oneflow {
namespace {

absl::Status PrintFields(const std::string& prefix) {
  OF_ASSIGN_OR_RETURN(const std::vector<FieldHelp> fields, ConfigFields(prefix));
  std::cout << FieldsText(fields);
  return absl::OkStatus();
}

// "gpt  reads text", what it is, and its fields.
std::string ModelText(const ModelDef& model) {
  const std::string head = absl::StrCat(model.name, "  reads ", absl::StrJoin(model.reads, " or "), "\n");
  const google::protobuf::FieldDescriptor* const field = pb::Model::descriptor()->FindFieldByName(model.name);
  if (field == nullptr) {
    return absl::StrCat(head, "Of a plugin: model { custom { name: \"", model.name, "\" set: \"FIELD=VALUE\" } }\n\n",
                        FieldsText(FieldsOf(model.fields)));
  }
  const google::protobuf::Descriptor& message = *field->message_type();
  return absl::StrCat(head, CommentOf(message), "\n\n",
                      FieldsText(FieldsOf(message, absl::StrCat("model.", model.name, "."))));
}

struct ModelsArguments {
  std::string name;                  // empty: all
  std::vector<std::string> plugins;  // whose models are listed too
};

absl::Status PrintModels(const ModelsArguments& arguments) {
  SourcedConfig config;
  for (const std::string& plugin : arguments.plugins) config.config.add_plugins(plugin);
  OF_RETURN_IF_ERROR(LoadPlugins(config).status());
  const std::string& name = arguments.name;
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
  ModelsArguments& models = arguments.New<ModelsArguments>();
  app.add_option("name", models.name, "only this one");
  app.add_option("--plugin", models.plugins, "library whose models are listed too; may be repeated")
      ->allow_extra_args(false);
  return [&models] { return Report(PrintModels(models)); };
}

struct ShowModelArguments {
  std::string name;
  std::vector<std::string> sets;
};

absl::Status ShowModel(const ShowModelArguments& arguments) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ConfigOfModel(arguments.name, arguments.sets));
  const bool reads_files = config.config.data().has_csv();  // its columns are the model's inputs
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), reads_files ? JobKind::kTrain : JobKind::kSealed, ops));
  OF_ASSIGN_OR_RETURN(const ModelSize size, SizeOfModel(job, ops));
  std::cout << ModelSizeText(arguments.name, size);
  return absl::OkStatus();
}

RunFunction DeclareShow(CLI::App& app, ParsedArguments& arguments) {
  ShowModelArguments& show = arguments.New<ShowModelArguments>();
  app.add_option("name", show.name, "of the model")->required();
  app.add_option("--set", show.sets, "a field of the model (layers=4) or of the job (train.batch_size=8)")
      ->allow_extra_args(false);
  return [&show] { return Report(ShowModel(show)); };
}

RunFunction DeclareFields(CLI::App& app, ParsedArguments& arguments) {
  std::string& prefix = arguments.New<std::string>();
  app.add_option("prefix", prefix, "only this field and those in it: \"train\", \"model.gpt.layers\"");
  return [&prefix] { return Report(PrintFields(prefix)); };
}

}  // namespace

std::vector<Command> ConfigCommands() {
  return {Group("config", "say what a job config may hold",
                {{"fields", "list fields with their types, the values that are allowed, defaults and meanings",
                  DeclareFields}}),
          {"models",
           "list the models that a job config can name, with their fields",
           DeclareModels,
           {{"show", "print a model's parameters, FLOPs and memory", DeclareShow}}}};
}

}  // namespace oneflow
