// The program around an image classifier: what makes its logits is given, the graphs to train and to judge it are made
// here.
//
//   train      read ──► logits ──► mean cross entropy = loss, fetched as "loss"
//   evaluate   read ──► logits ──► "loss" and "accuracy", the share of samples whose largest logit is the label's
#pragma once

#include <functional>
#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"

namespace oneflow {

// From images [n,c,h,w] to logits [n,classes]; `training` says whether random parts such as dropout act.
using ClassifierModel = std::function<Tensor(const Tensor& images, bool training)>;

// The graphs "train" and, if asked for, "evaluate". Errors of the model's graph come out as InvalidArgument.
absl::StatusOr<std::vector<Graph>> ClassifierProgram(const ClassifierModel& model, const ImageData& data,
                                                     const BatchSizes& batches, const OpRegistry& ops);

}  // namespace oneflow
