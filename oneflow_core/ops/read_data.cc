#include "oneflow_core/ops/read_data.h"

#include "oneflow_core/ops/check.h"

namespace oneflow {
namespace {

using ops::IntAttr;
using ops::Types;

absl::StatusOr<Types> TextTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t context, IntAttr(attributes, "context", 1));
  return Types{{DType::kInt32, {batch, context}}, {DType::kInt32, {batch, context}}};
}

absl::StatusOr<Types> ImageTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t channels, IntAttr(attributes, "channels", 1));
  OF_ASSIGN_OR_RETURN(const int64_t height, IntAttr(attributes, "height", 1));
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttr(attributes, "width", 1));
  return Types{{DType::kFloat32, {batch, channels, height, width}}, {DType::kInt32, {batch}}};
}

absl::StatusOr<Types> ClickTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t fields, IntAttr(attributes, "fields", 1));
  OF_ASSIGN_OR_RETURN(const int64_t numbers, IntAttr(attributes, "numbers", 0));
  return Types{{DType::kInt32, {batch, fields}}, {DType::kFloat32, {batch, numbers}}, {DType::kInt32, {batch}}};
}

constexpr DataKind kDataKinds[] = {
    {"text", TextTypes, "tokens", true},
    {"images", ImageTypes, "images", false},
    {"prototypes", ImageTypes, "images", false},
    {"clicks", ClickTypes, "samples", false},
};

// "'a', 'b' or 'c'".
std::string AllNames() {
  std::string names;
  for (const DataKind& kind : kDataKinds) {
    const bool last = &kind == std::end(kDataKinds) - 1;
    absl::StrAppend(&names, names.empty() ? "" : last ? " or " : ", ", "'", kind.name, "'");
  }
  return names;
}

}  // namespace

absl::Span<const DataKind> DataKinds() { return kDataKinds; }

absl::StatusOr<DataKind> FindDataKind(absl::string_view name) {
  for (const DataKind& kind : kDataKinds) {
    if (name == kind.name) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("attribute 'dataset' is '", name, "' but must be ", AllNames()));
}

absl::StatusOr<Types> ops::InferReadData(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {}));
  OF_ASSIGN_OR_RETURN(const std::string dataset, StringAttr(c.attrs, "dataset"));
  OF_ASSIGN_OR_RETURN(const int64_t batch, IntAttr(c.attrs, "batch", c.of_shards ? 0 : 1));
  OF_ASSIGN_OR_RETURN(const DataKind kind, FindDataKind(dataset));
  OF_ASSIGN_OR_RETURN(Types types, kind.types(c.attrs, batch));
  return Outputs(std::move(types));
}

AttrMap ops::ReadDataOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "batch", outputs[0].dims[0]);
}

}  // namespace oneflow
