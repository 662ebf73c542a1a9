// What every model's config has to satisfy, and the sizes of the graphs that a model is asked for.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "oneflow_core/attr.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Samples per micro-batch of a model's graphs: a graph describes what one micro-batch computes.
struct BatchSizes {
  int64_t train = 1;
  int64_t evaluate = 0;  // 0: no evaluation graph
};

// Largest size that a config may ask of one dimension: products of three such sizes are still far from overflowing.
// Configs are held against the same limits before a model sees them.
inline constexpr int64_t kMaxModelSize = int64_t{1} << 18;
inline constexpr int64_t kMaxLayers = 10'000;

// A field of a model or of a kind of data that a plug-in adds, as proto/job.proto describes those of others.
struct FieldDef {
  std::string name;
  Attr value;  // where a job says none; its type is the field's
  double least = -std::numeric_limits<double>::infinity(),
         most = std::numeric_limits<double>::infinity();  // of numbers
  std::string help;
};

// What is wrong with a field of a config, for "model.gpt.heads: width 16 is not a multiple of 3 heads".
struct FieldComplaint {
  std::string field, what;
};

// InvalidArgument "<model>: <field> is 0, but must be from 1 to ..." unless 1 <= value <= most.
inline absl::Status CheckSize(absl::string_view model, absl::string_view field, int64_t value,
                              int64_t most = kMaxModelSize) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(model, ": ", field, " is ", value, ", but must be from 1 to ", most));
}

// InvalidArgument unless 0 <= value < 1.
inline absl::Status CheckFraction(absl::string_view model, absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(model, ": ", field, " is ", value, ", but must be from 0 to below 1"));
}

// Batches: train at least 1, evaluate at least 0.
inline absl::Status CheckBatches(absl::string_view model, const BatchSizes& batches) {
  OF_RETURN_IF_ERROR(CheckSize(model, "the training batch", batches.train));
  return batches.evaluate == 0 ? absl::OkStatus() : CheckSize(model, "the evaluation batch", batches.evaluate);
}

}  // namespace oneflow
