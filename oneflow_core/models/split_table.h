// Embedding tables of clicks (models/data.h): one for the ids of all fields, which is nearly all of a model, and may be
// split over mesh axis "tp".
#pragma once

#include <string>

#include "oneflow_core/models/data.h"

namespace oneflow {

// By rows: every rank answers for its ids, and the answers are partial sums. By columns: every rank has a part of each
// embedding. Or whole on every rank.
enum class TableSplit { kNone, kRows, kColumns };

// What a job's field `table_split` says.
TableSplit TableSplitOf(const std::string& text);

// InvalidArgument naming `model` and the number if clicks have no fields or numbers, or a field has no id.
absl::Status CheckClicks(absl::string_view model, const ClickData& data);

// Rows of the variable "table" for ids [n,fields]: f32[n,fields,width].
Tensor LookUp(const Tensor& ids, const ClickData& data, int64_t width, TableSplit split, const std::string& init);

}  // namespace oneflow
