#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/data/image_types.h"

namespace oneflow {
namespace {

absl::StatusOr<std::vector<TensorType>> CifarTypes(const AttrMap&, int64_t batch) {
  return ImageTypes({{"channels", int64_t{3}}, {"height", int64_t{32}}, {"width", int64_t{32}}}, batch);
}

Batch ReadCifar(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch) {
  const std::source_location loc = std::source_location::current();
  AttrMap attributes = {{"dataset", "cifar"},
                        {"batch", batch},
                        {"folder", fields.String("folder")},
                        {"labels", fields.String("labels")},
                        {"split", SplitName(split)}};
  SetNormalisation(fields, attributes);
  std::vector<Tensor> read = b.Op("read_data", {}, std::move(attributes), loc);
  read.resize(2);
  return DealtOut(read[0], read[1], loc);
}

std::optional<FieldComplaint> CheckCifar(const AttrMap& fields, bool) { return CheckNormalisation(fields, 3); }

}  // namespace

DataKind CifarKind() {
  return {.name = "cifar",
          .types = CifarTypes,
          .read = ReadCifar,
          .check = CheckCifar,
          .paths = {"folder"},
          .labels = 1,
          .unit = "images"};
}

}  // namespace oneflow
