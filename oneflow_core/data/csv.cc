#include "oneflow_core/data/csv_rows.h"
#include "oneflow_core/data/data_kind.h"
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

Batch ReadCsv(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch) {
  const std::source_location loc = std::source_location::current();
  AttrMap attributes = RowsOfSplit("csv", fields, split, batch);
  attributes.Set("features", fields.String("features"));
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
  return CheckValidationRows(fields, evaluates);
}

}  // namespace

// Numbers f32[batch,columns], and classes i32[batch] or targets f32[batch].
DataKind CsvKind() {
  return {.name = "csv", .types = CsvTypes, .read = ReadCsv, .check = CheckCsv, .paths = {"path"}, .labels = 1};
}

}  // namespace oneflow
