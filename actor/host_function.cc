#include "actor/host_function.h"

#include <vector>

namespace oneflow {
namespace {

std::vector<HostFunctionKind>& Table() {
  static auto* const kinds = new std::vector<HostFunctionKind>();
  return *kinds;
}

}  // namespace

void AddHostFunction(HostFunctionKind kind) { Table().push_back(kind); }

absl::StatusOr<std::unique_ptr<HostFunction>> OpenHostFunction(const std::string& op, const AttrMap& attributes) {
  for (const HostFunctionKind& kind : Table()) {
    if (op == kind.op) return kind.open(attributes);
  }
  return absl::UnimplementedError(absl::StrCat("op '", op, "' has no host function"));
}

}  // namespace oneflow
