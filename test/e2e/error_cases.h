// Commands that must fail, with what they say.
#pragma once

#include <string>
#include <vector>

#include "test/e2e/oneflow_command.h"

namespace oneflow::e2e {

// Arguments and message may name files of the workspace as "DIR/name".
struct ErrorCase {
  std::vector<std::string> arguments;
  std::string message;  // part of the line
};

// Runs all cases, beside one another, and expects of each the exit code, one line with the message, and an empty
// standard output.
void ExpectErrors(const Workspace& work, const std::vector<ErrorCase>& cases, int exit_code);

}  // namespace oneflow::e2e
