#include "actor/data/source.h"

#include "actor/data/image_source.h"
#include "actor/data/text_source.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const AttrMap& attributes) {
  const std::string dataset = attributes.String("dataset");
  if (dataset == "text") return OpenTextSource(attributes);
  if (dataset == "images") return OpenImageSource(attributes);
  return absl::InvalidArgumentError(absl::StrCat("no data set kind '", dataset, "': 'text' and 'images' exist"));
}

}  // namespace oneflow
