#include "actor/data/source.h"

#include "oneflow_core/data/data_kind.h"

namespace oneflow {

std::vector<std::vector<SourceKind>> ListedSources();  // made by the build, of the files of this folder

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const AttrMap& attributes) {
  const std::string dataset = attributes.String("dataset");
  for (const std::vector<SourceKind>& of_file : ListedSources()) {
    for (const SourceKind& kind : of_file) {
      if (dataset == kind.name) return kind.open(attributes);
    }
  }
  OF_RETURN_IF_ERROR(FindDataKind(dataset).status());
  return absl::UnimplementedError(absl::StrCat("no source reads data of kind '", dataset, "'"));
}

}  // namespace oneflow
