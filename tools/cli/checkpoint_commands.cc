// `oneflow checkpoint ls|verify|diff|convert`.
#include <filesystem>
#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/study/checkpoint/checkpoint_tools.h"

namespace oneflow {
namespace {

// A name is the folder of a checkpoint, or of a job's, which stands for its last.

absl::Status PrintCheckpoints(const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::string text, ListText(name));
  std::cout << text;
  return absl::OkStatus();
}

absl::Status VerifyAndSay(const std::string& name) {
  return VerifyCheckpoints(name, [](const std::string& line) { std::cout << line << std::endl; });
}

// 0 if they hold the same to the bit, as of diff(1).
int DiffCheckpoints(const std::string& a, const std::string& b) {
  const absl::StatusOr<std::string> text = DiffText(a, b);
  if (!text.ok()) return Report(text.status());
  std::cout << *text;
  return text->empty() ? 0 : 1;
}

struct ConvertArguments {
  std::string from, to;  // a checkpoint and a safetensors file, or a safetensors file and a job's folder of checkpoints
  bool all = false;      // to safetensors: the optimizer's state and everything else too
  std::optional<int64_t> step;  // of the checkpoint that is made; default: 0
};

absl::Status Convert(const ConvertArguments& arguments) {
  std::error_code ignored;
  const bool makes_file = std::filesystem::is_directory(arguments.from, ignored);
  if (makes_file && arguments.step) {
    return absl::InvalidArgumentError(absl::StrCat("--step ", *arguments.step, ": '", arguments.from,
                                                   "' is a folder, of which a file is made and no checkpoint"));
  }
  if (!makes_file && arguments.all) {
    return absl::InvalidArgumentError(
        absl::StrCat("--all: '", arguments.from, "' is no folder of checkpoints; of a file all tensors are taken"));
  }
  OF_RETURN_IF_ERROR(ConvertCheckpoint(arguments.from, arguments.to, arguments.all, arguments.step.value_or(0)));
  std::cout << "wrote " << arguments.to << "\n";
  return absl::OkStatus();
}

RunFunction DeclareList(CLI::App& app, ParsedArguments& arguments) {
  std::string& name = arguments.New<std::string>();
  app.add_option("folder", name, "checkpoint.path of a job, or one checkpoint")->required();
  return [&name] { return Report(PrintCheckpoints(name)); };
}

RunFunction DeclareVerify(CLI::App& app, ParsedArguments& arguments) {
  std::string& name = arguments.New<std::string>();
  app.add_option("folder", name, "checkpoint.path of a job, or one checkpoint")->required();
  return [&name] { return Report(VerifyAndSay(name)); };
}

RunFunction DeclareDiff(CLI::App& app, ParsedArguments& arguments) {
  std::string& name = arguments.New<std::string>();
  std::string& other = arguments.New<std::string>();
  app.add_option("folder", name, "checkpoint, or a job's folder for its last")->required();
  app.add_option("other", other, "the same, to compare with it")->required();
  return [&name, &other] { return DiffCheckpoints(name, other); };
}

RunFunction DeclareConvert(CLI::App& app, ParsedArguments& arguments) {
  ConvertArguments& convert = arguments.New<ConvertArguments>();
  app.add_option("from", convert.from, "checkpoint, or a job's folder for its last; or a safetensors file")->required();
  app.add_option("to", convert.to, "safetensors file; or a job's folder of checkpoints")->required();
  app.add_flag("--all", convert.all, "also what are no weights: the optimizer's state, statistics, ...");
  app.add_option("--step", convert.step, "of the checkpoint that is made; default: 0")->check(WholeFrom(0));
  return [&convert] { return Report(Convert(convert)); };
}

}  // namespace

std::vector<Command> CheckpointCommands() {
  return {Group("checkpoint", "look at checkpoints of jobs, and convert them",
                {
                    {"ls", "list a job's checkpoints", DeclareList},
                    {"verify", "read every byte and say whether it is what was written", DeclareVerify},
                    {"diff", "compare two checkpoints; exits with 1 if they differ", DeclareDiff},
                    {"convert", "write a checkpoint's tensors to a safetensors file, or make a checkpoint of one",
                     DeclareConvert},
                })};
}

}  // namespace oneflow
