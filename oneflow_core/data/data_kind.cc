#include "oneflow_core/data/data_kind.h"

#include <utility>

#include "oneflow_core/growing_table.h"

namespace oneflow {
namespace {

// "'a', 'b' or 'c'".
std::string AllNames() {
  std::string names;
  for (const DataKind& kind : DataKinds()) {
    const bool last = &kind == &DataKinds().back();
    absl::StrAppend(&names, names.empty() ? "" : last ? " or " : ", ", "'", kind.name, "'");
  }
  return names;
}

}  // namespace

std::vector<DataKind> ListedDataKinds();  // made by the build, of the files of this folder

const std::deque<DataKind>& DataKinds() { return GrowingTable(ListedDataKinds); }

void AddDataKind(DataKind kind) { GrowingTable(ListedDataKinds).push_back(std::move(kind)); }

absl::StatusOr<DataKind> FindDataKind(absl::string_view name) {
  for (const DataKind& kind : DataKinds()) {
    if (name == kind.name) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("attribute 'dataset' is '", name, "' but must be ", AllNames()));
}

}  // namespace oneflow
