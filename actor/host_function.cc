#include "actor/host_function.h"

#include "oneflow_core/growing_table.h"

namespace oneflow {

// Of files in actor/calls/: a source that the build writes.
std::vector<HostFunctionKind> ListedHostFunctions();

namespace {

std::deque<HostFunctionKind>& HostFunctions() { return GrowingTable<HostFunctionKind>(ListedHostFunctions); }

}  // namespace

void AddHostFunction(HostFunctionKind kind) { HostFunctions().push_back(kind); }

absl::StatusOr<std::unique_ptr<HostFunction>> OpenHostFunction(const std::string& op, const AttrMap& attributes) {
  for (const HostFunctionKind& kind : HostFunctions()) {
    if (op == kind.op) return kind.open(attributes);
  }
  return absl::UnimplementedError(absl::StrCat("op '", op, "' has no host function"));
}

}  // namespace oneflow
