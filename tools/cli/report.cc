#include <iostream>

#include "tools/cli/commands.h"

namespace oneflow {

int Report(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << "oneflow: " << status.message() << std::endl;
  return absl::IsCancelled(status) ? 130 : 1;
}

void PrintWarnings(const Job& job) {
  for (const std::string& warning : job.warnings) std::cerr << "warning: " << warning << "\n";
}

}  // namespace oneflow
