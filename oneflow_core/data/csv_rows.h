// What kinds of data have in common whose samples are rows of CSV files.
#pragma once

#include <optional>
#include <string>

#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/models/config.h"

namespace oneflow {

// Where the rows of a split are. Without a file of its own, validation has the last rows of the only one, which
// training leaves out.
inline AttrMap RowsOfSplit(const std::string& dataset, const AttrMap& fields, DataSplit split, int64_t batch) {
  const std::string validation = fields.String("validation_path");
  const bool own_file = split == DataSplit::kValidation && !validation.empty();
  AttrMap attributes = {{"dataset", dataset},
                        {"batch", batch},
                        {"path", own_file ? validation : fields.String("path")},
                        {"separator", fields.String("separator")},
                        {"split", SplitName(split)}};
  if (validation.empty()) attributes.Set("validation_fraction", fields.Double("validation_fraction"));
  return attributes;
}

inline std::optional<FieldComplaint> CheckValidationRows(const AttrMap& fields, bool evaluates) {
  if (!evaluates || !fields.String("validation_path").empty() || fields.Double("validation_fraction") > 0) {
    return std::nullopt;
  }
  return FieldComplaint{"validation_path", "is missing, and validation_fraction is 0, but evaluate is asked for"};
}

}  // namespace oneflow
