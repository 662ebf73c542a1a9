// `oneflow checkpoint ls|verify|diff|convert`.
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tools/cli/commands.h"
#include "tools/study/checkpoint/checkpoint_tools.h"

namespace oneflow {

absl::Status CheckpointListCommand(const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::string text, ListText(name));
  std::cout << text;
  return absl::OkStatus();
}

absl::Status CheckpointVerifyCommand(const std::string& name) {
  return VerifyCheckpoints(name, [](const std::string& line) { std::cout << line << std::endl; });
}

int CheckpointDiffCommand(const std::string& a, const std::string& b) {
  const absl::StatusOr<std::string> text = DiffText(a, b);
  if (!text.ok()) return Report(text.status());
  std::cout << *text;
  return text->empty() ? 0 : 1;
}

absl::Status CheckpointConvertCommand(const ConvertArguments& arguments) {
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

}  // namespace oneflow
