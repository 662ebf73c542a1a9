#include "oneflow_core/data/data_kind.h"

#include <utility>

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

namespace {

std::deque<DataKind>& Table() {
  static auto* const kinds = [] {
    const std::vector<DataKind> listed = ListedDataKinds();
    return new std::deque<DataKind>(listed.begin(), listed.end());
  }();
  return *kinds;
}

}  // namespace

const std::deque<DataKind>& DataKinds() { return Table(); }

void AddDataKind(DataKind kind) { Table().push_back(std::move(kind)); }

absl::StatusOr<DataKind> FindDataKind(absl::string_view name) {
  for (const DataKind& kind : DataKinds()) {
    if (name == kind.name) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("attribute 'dataset' is '", name, "' but must be ", AllNames()));
}

}  // namespace oneflow
