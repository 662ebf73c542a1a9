#include "tools/bench/bench_case.h"

#include <iostream>

#include "absl/strings/str_format.h"

namespace oneflow {

absl::Status BeginPart(const BenchContext& context, const std::string& what) {
  if (context.stop) return absl::CancelledError("interrupted");
  std::cerr << absl::StrFormat("\n  %-44s", what) << std::flush;
  return absl::OkStatus();
}

}  // namespace oneflow
