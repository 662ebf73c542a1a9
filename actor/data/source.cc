#include "actor/data/source.h"

#include "actor/data/image_source.h"
#include "actor/data/made_source.h"
#include "actor/data/text_source.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const AttrMap& attributes) {
  const std::string dataset = attributes.String("dataset");
  if (dataset == "text") return OpenTextSource(attributes);
  if (dataset == "images") return OpenImageSource(attributes);
  if (dataset == "prototypes") return OpenPrototypeSource(attributes);
  if (dataset == "clicks") return OpenClickSource(attributes);
  return absl::InvalidArgumentError(
      absl::StrCat("no data set kind '", dataset, "': 'text', 'images', 'prototypes' and 'clicks' exist"));
}

}  // namespace oneflow
