#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/ops/check.h"

namespace oneflow {
namespace {

absl::StatusOr<std::vector<TensorType>> ClickTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t fields, ops::IntAttr(attributes, "fields", 1));
  OF_ASSIGN_OR_RETURN(const int64_t numbers, ops::IntAttr(attributes, "numbers", 0));
  return std::vector<TensorType>{
      {DType::kInt32, {batch, fields}}, {DType::kFloat32, {batch, numbers}}, {DType::kInt32, {batch}}};
}

}  // namespace

ClickData ClickDataOf(const AttrMap& fields) {
  ClickData data;
  data.fields = fields.Int("fields");
  data.vocabulary = fields.Int("vocabulary");
  data.numbers = fields.Int("numbers");
  SetSamples(fields, data);
  return data;
}

ClickBatch ReadClickBatch(GraphBuilder& b, const ClickData& data, DataSplit split, int64_t batch,
                          std::source_location loc) {
  std::vector<Tensor> read =
      ReadMade(b, "clicks", data, split, batch,
               {{"fields", data.fields}, {"numbers", data.numbers}, {"vocabulary", data.vocabulary}}, loc);
  read.resize(3);
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  return {read[0].To(by_sample, loc), read[1].To(by_sample, loc), read[2].To(by_sample, loc)};
}

// No `read`: a sample has ids beside its numbers.
DataKind ClicksKind() { return {.name = "clicks", .types = ClickTypes}; }

}  // namespace oneflow
