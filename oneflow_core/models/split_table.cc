#include "oneflow_core/models/split_table.h"

#include <cstdint>
#include <utility>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/config.h"

namespace oneflow {

TableSplit TableSplitOf(const std::string& text) {
  return text == "none" ? TableSplit::kNone : text == "columns" ? TableSplit::kColumns : TableSplit::kRows;
}

absl::Status CheckClicks(absl::string_view model, const ClickData& data) {
  OF_RETURN_IF_ERROR(CheckSize(model, "the number of fields", data.fields));
  OF_RETURN_IF_ERROR(CheckSize(model, "the number of numbers", data.numbers));
  if (data.vocabulary >= data.fields && data.vocabulary <= INT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(model, ": the vocabulary is ", data.vocabulary, ", but must be from ",
                                                 data.fields, ", one id for each field, to ", INT32_MAX));
}

Tensor LookUp(const Tensor& ids, const ClickData& data, int64_t width, TableSplit split, const std::string& init) {
  if (!ids.valid()) return Tensor();
  SbpHint hint = {
      {"tp", split == TableSplit::kNone ? Sbp::Broadcast() : Sbp::Split(split == TableSplit::kColumns ? 1 : 0)}};
  return Embedding(ids.builder()->Variable("table", {DType::kFloat32, {data.vocabulary, width}}, init, std::move(hint)),
                   ids);
}

}  // namespace oneflow
