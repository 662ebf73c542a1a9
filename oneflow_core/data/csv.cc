#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/text_list.h"

namespace oneflow {
namespace {

absl::StatusOr<std::vector<TensorType>> CsvTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const std::string text, ops::StringAttr(attributes, "features"));
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> features, SplitTexts(text));
  if (features.empty()) return absl::InvalidArgumentError("attribute 'features' names no columns");
  const DType wanted = attributes.Has("target") ? DType::kFloat32 : DType::kInt32;
  return std::vector<TensorType>{{DType::kFloat32, {batch, static_cast<int64_t>(features.size())}}, {wanted, {batch}}};
}

// Without a file of its own, validation has the last rows of the only one, which training leaves out.
Batch ReadCsv(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch) {
  const std::source_location loc = std::source_location::current();
  const std::string validation = fields.String("validation_path");
  const bool own_file = split == DataSplit::kValidation && !validation.empty();
  AttrMap attributes = {{"dataset", "csv"},
                        {"batch", batch},
                        {"path", own_file ? validation : fields.String("path")},
                        {"features", fields.String("features")},
                        {"separator", fields.String("separator")},
                        {"split", SplitName(split)}};
  if (validation.empty()) attributes.Set("validation_fraction", fields.Double("validation_fraction"));
  for (const char* wanted : {"label", "target"}) {
    if (!fields.String(wanted).empty()) attributes.Set(wanted, fields.String(wanted));
  }
  std::vector<Tensor> read = b.Op("read_data", {}, std::move(attributes), loc);
  read.resize(2);
  return DealtOut(read[0], read[1], loc);
}

std::optional<FieldComplaint> CheckCsv(const AttrMap& fields, bool evaluates) {
  if (fields.String("features").empty()) return FieldComplaint{"features", "names no columns"};
  if (fields.String("label").empty() == fields.String("target").empty()) {
    return FieldComplaint{"label", "one of label and target is to be learned, and has to name a column"};
  }
  if (evaluates && fields.String("validation_path").empty() && fields.Double("validation_fraction") == 0) {
    return FieldComplaint{"validation_path", "is missing, and validation_fraction is 0, but evaluate is asked for"};
  }
  return std::nullopt;
}

}  // namespace

// Numbers f32[batch,columns], and classes i32[batch] or targets f32[batch].
DataKind CsvKind() {
  return {.name = "csv", .types = CsvTypes, .read = ReadCsv, .check = CheckCsv, .paths = {"path"}, .labels = 1};
}

}  // namespace oneflow
