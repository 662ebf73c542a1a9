// `oneflow weights ls|diff|import|export`.
#include <iostream>

#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/study/weights/export_weights.h"
#include "tools/study/weights/import_weights.h"
#include "tools/study/weights/look.h"

namespace oneflow {
namespace {

constexpr char kMappingHelp[] =
    "table of names (proto/weight_mapping.proto); default: the one for the job's model that comes with the program";

absl::Status Print(const absl::StatusOr<std::string>& text) {
  if (text.ok()) std::cout << *text;
  return text.status();
}

// 0 if they are the same, as of diff(1).
int DiffWeights(const std::string& a, const std::string& b) {
  const absl::StatusOr<std::string> text = WeightsDiffText(a, b);
  if (!text.ok()) return Report(text.status());
  std::cout << *text;
  return text->empty() ? 0 : 1;
}

struct ImportArguments {
  JobArguments job;
  ImportOptions options;
};

absl::Status Import(const ImportArguments& arguments) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  return Print(ImportWeights(std::move(config), arguments.options));
}

struct ExportArguments {
  JobArguments job;
  ExportOptions options;
  std::string dtype = "f32";
};

absl::Status Export(ExportArguments& arguments) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.job.Load());
  ParseDType(arguments.dtype.c_str(), &arguments.options.dtype);  // it is one of those that the option allows
  return Print(ExportWeights(std::move(config), arguments.options));
}

RunFunction DeclareListWeights(CLI::App& app, ParsedArguments& arguments) {
  std::string& path = arguments.New<std::string>();
  app.add_option("path", path, "safetensors file, folder in Hugging Face's form, checkpoint or folder of those")
      ->required();
  return [&path] { return Report(Print(WeightsText(path))); };
}

RunFunction DeclareDiffWeights(CLI::App& app, ParsedArguments& arguments) {
  std::string& path = arguments.New<std::string>();
  std::string& other = arguments.New<std::string>();
  app.add_option("path", path, "safetensors file, folder in Hugging Face's form, checkpoint or folder of those")
      ->required();
  app.add_option("other", other, "the same, to compare with it")->required();
  return [&path, &other] { return DiffWeights(path, other); };
}

RunFunction DeclareImport(CLI::App& app, ParsedArguments& arguments) {
  ImportArguments& import = arguments.New<ImportArguments>();
  app.add_option("folder", import.options.folder, "with config.json and model.safetensors, or its index")->required();
  AddConfig(app, import.job);
  app.add_option("--out", import.options.out, "safetensors file to write, which a job's field `weights` takes")
      ->required();
  app.add_option("--mapping", import.options.mapping, kMappingHelp);
  app.add_option("--allow-missing", import.options.allow_missing,
                 "pattern with * and ? of variables that the folder may lack; they start with fresh values")
      ->allow_extra_args(false);
  app.add_option(
      "--adapters", import.options.adapters,
      "folder in PEFT's form, with adapter_config.json and adapter_model.safetensors, for the job's train.lora");
  return [&import] { return Report(Import(import)); };
}

RunFunction DeclareExport(CLI::App& app, ParsedArguments& arguments) {
  ExportArguments& out = arguments.New<ExportArguments>();
  AddConfig(app, out.job);
  app.add_option("weights", out.options.weights, "safetensors file, checkpoint, or a job's folder for its last")
      ->required();
  app.add_option("--out", out.options.out, "folder to write, made if there is none")->required();
  app.add_option("--mapping", out.options.mapping, kMappingHelp);
  app.add_option("--dtype", out.dtype, "f32, bf16 or f16; default: f32")->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_flag("--adapters", out.options.adapters,
               "adapters alone, in PEFT's form, instead of the model with what they add");
  app.add_option("--max-shard-bytes", out.options.max_shard_bytes, "the most in one file; default: 5000000000")
      ->check(WholeFrom(1));
  return [&out] { return Report(Export(out)); };
}

}  // namespace

std::vector<Command> WeightsCommands() {
  return {Group("weights", "look at weights, and exchange them with Hugging Face's libraries",
                {
                    {"ls", "list tensors: name, dtype, shape, bytes, file", DeclareListWeights},
                    {"diff", "compare two sets of weights; exits with 1 if they differ", DeclareDiffWeights},
                    {"import", "make a job's weight file of a folder in Hugging Face's form", DeclareImport},
                    {"export", "make a folder in Hugging Face's form of a job's weights", DeclareExport},
                })};
}

}  // namespace oneflow
