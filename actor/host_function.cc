#include "actor/host_function.h"

#include "oneflow_core/growing_table.h"

namespace oneflow {

void AddHostFunction(HostFunctionKind kind) { GrowingTable<HostFunctionKind>().push_back(kind); }

absl::StatusOr<std::unique_ptr<HostFunction>> OpenHostFunction(const std::string& op, const AttrMap& attributes) {
  for (const HostFunctionKind& kind : GrowingTable<HostFunctionKind>()) {
    if (op == kind.op) return kind.open(attributes);
  }
  return absl::UnimplementedError(absl::StrCat("op '", op, "' has no host function"));
}

}  // namespace oneflow
