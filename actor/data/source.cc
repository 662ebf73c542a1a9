#include "actor/data/source.h"

#include "actor/data/image_source.h"
#include "actor/data/made_source.h"
#include "actor/data/text_source.h"
#include "oneflow_core/ops/read_data.h"

namespace oneflow {

namespace {

// The kinds of oneflow_core/ops/read_data.cc.
constexpr struct {
  const char* kind;
  absl::StatusOr<std::unique_ptr<Source>> (*open)(const AttrMap& attributes);
} kSources[] = {
    {"text", OpenTextSource},
    {"images", OpenImageSource},
    {"prototypes", OpenPrototypeSource},
    {"clicks", OpenClickSource},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const AttrMap& attributes) {
  const std::string dataset = attributes.String("dataset");
  for (const auto& [kind, open] : kSources) {
    if (dataset == kind) return open(attributes);
  }
  OF_RETURN_IF_ERROR(FindDataKind(dataset).status());
  return absl::UnimplementedError(absl::StrCat("no source reads data of kind '", dataset, "'"));
}

}  // namespace oneflow
