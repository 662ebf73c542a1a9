#include "oneflow_core/data/csv_rows.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/ops/check.h"

namespace oneflow {
namespace {

absl::StatusOr<std::vector<TensorType>> TextsTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t context, ops::IntAttr(attributes, "context", 1));
  const TensorType tokens = {DType::kInt32, {batch, context}};
  return std::vector<TensorType>{tokens, {DType::kInt32, {batch}}, tokens};
}

}  // namespace

LabelledTexts ReadLabelledTexts(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch, int64_t context,
                                int64_t vocabulary, std::source_location loc) {
  AttrMap attributes = RowsOfSplit("texts", fields, split, batch);
  attributes.Set("context", context);
  attributes.Set("vocabulary", vocabulary);
  for (const char* name : {"text", "label", "tokens"}) attributes.Set(name, fields.String(name));
  for (const char* name : {"first_token", "padding_token"}) attributes.Set(name, fields.Int(name));
  std::vector<Tensor> read = b.Op("read_data", {}, std::move(attributes), loc);
  read.resize(3);
  const Batch samples = DealtOut(read[0], read[1], loc);
  return {samples.inputs, samples.labels, read[2].To({{"dp", Sbp::Split(0)}}, loc)};
}

// No `read`: a model says how many tokens a sample has, and of which vocabulary they are.
DataKind TextsKind() {
  return {.name = "texts",
          .types = TextsTypes,
          .check = CheckValidationRows,
          .paths = {"path"},
          .labels = 1,
          .unit = "texts"};
}

}  // namespace oneflow
