// Wide & Deep (Cheng et al., 2016): the probability of a click from categorical fields and numbers. The wide part adds
// up what single values say, the deep part looks at embeddings of them together.
//
//   ids [n,fields] ──► wide table  [v,2]     ──► sum over fields ───────────────────┐
//                 └──► deep table  [v,width] ──► [n, fields*width] ─┐               ├─► logits [n,2]
//   numbers [n,numbers] ────────────────────────────────────────────┴─► mlp ────────┘
//
// The tables are nearly all of the model. `split` says how they lie over mesh axis "tp" (split_table.h); the wide
// table, of two columns, is split by rows where the deep one is split by columns.
#pragma once

#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/models/split_table.h"

namespace oneflow {

struct WideDeepConfig {
  int64_t embedding = 16;
  std::vector<int64_t> widths = {128, 64};  // of the deep part's hidden layers
  TableSplit split = TableSplit::kRows;
};

// The graphs "train" and, if asked for, "evaluate", with "loss" and "accuracy". Variables "wide/table", "deep/table",
// "deep/fc0/weight", ... InvalidArgument naming the field if the config is impossible.
absl::StatusOr<std::vector<Graph>> WideDeepProgram(const WideDeepConfig& config, const ClickData& data,
                                                   const BatchSizes& batches, const OpRegistry& ops);

}  // namespace oneflow
