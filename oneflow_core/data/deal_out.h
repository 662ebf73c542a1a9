// What the kinds of data share: the name of a split, and how the samples of a batch lie.
#pragma once

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/models/data.h"

namespace oneflow {

// The attribute 'split'.
inline std::string SplitName(DataSplit split) { return split == DataSplit::kTrain ? "train" : "validation"; }

// How many made-up samples there are, as the fields of a job's data say.
template <typename Data>
void SetSamples(const AttrMap& fields, Data& data) {
  data.samples = fields.Int("samples");
  data.validation_samples = fields.Int("validation_samples");
}

// Adds the node that reads made-up samples: `attributes` say what they are like, `data` how many there are.
template <typename Data>
std::vector<Tensor> ReadMade(GraphBuilder& b, const std::string& dataset, const Data& data, DataSplit split,
                             int64_t batch, AttrMap attributes, std::source_location loc) {
  attributes.Set("dataset", dataset);
  attributes.Set("batch", batch);
  attributes.Set("samples", split == DataSplit::kTrain ? data.samples : data.validation_samples);
  attributes.Set("split", SplitName(split));
  return b.Op("read_data", {}, std::move(attributes), loc);
}

// Samples dealt out along mesh axis "dp".
inline Batch DealtOut(const Tensor& inputs, const Tensor& labels, std::source_location loc) {
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  return {inputs.To(by_sample, loc), labels.To(by_sample, loc)};
}

// The same of samples that are tokens: these along "cp".
inline Batch TokensDealtOut(const Tensor& inputs, const Tensor& labels, std::source_location loc) {
  const SbpHint by_token = {{"dp", Sbp::Split(0)}, {"cp", Sbp::Split(1)}};
  return {inputs.To(by_token, loc), labels.To(by_token, loc)};
}

}  // namespace oneflow
