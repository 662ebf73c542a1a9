// `oneflow checkpoint ls|verify|diff|convert`.
#include <iostream>

#include "tools/checkpoint/checkpoint_tools.h"
#include "tools/cli/commands.h"

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
  OF_RETURN_IF_ERROR(ConvertCheckpoint(arguments.from, arguments.to, arguments.all, arguments.step));
  std::cout << "wrote " << arguments.to << "\n";
  return absl::OkStatus();
}

}  // namespace oneflow
