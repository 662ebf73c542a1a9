#include "actor/data/source.h"

#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/growing_table.h"

namespace oneflow {

std::vector<std::vector<SourceKind>> ListedSources();  // made by the build, of the files of this folder

namespace {

std::vector<SourceKind> AllListed() {
  std::vector<SourceKind> all;
  for (const std::vector<SourceKind>& of_file : ListedSources()) all.insert(all.end(), of_file.begin(), of_file.end());
  return all;
}

}  // namespace

void AddSource(SourceKind source) { GrowingTable(AllListed).push_back(source); }

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const AttrMap& attributes) {
  const std::string dataset = attributes.String("dataset");
  for (const SourceKind& kind : GrowingTable(AllListed)) {
    if (dataset == kind.name) return kind.open(attributes);
  }
  OF_RETURN_IF_ERROR(FindDataKind(dataset).status());
  return absl::UnimplementedError(absl::StrCat("no source reads data of kind '", dataset, "'"));
}

}  // namespace oneflow
