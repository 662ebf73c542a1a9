// The program around a classifier: what reads a batch and makes its logits is given, the graphs to train and to judge
// it are made here.
//
//   train      read ──► logits ──► mean cross entropy = loss, fetched as "loss"
//   evaluate   read ──► logits ──► "loss" and "accuracy", the share of samples whose largest logit is the label's
//
// A single logit is that of class 1 against class 0: the loss is the binary cross entropy.
//
// Labels that are numbers instead of classes are estimated: there is one logit, the estimate, and the loss is the mean
// squared error. Evaluation has no accuracy then.
#pragma once

#include <functional>
#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/models/model.h"

namespace oneflow {

struct Classified {
  Tensor logits;  // [n,classes]; [n,1] for numbers, or of class 1
  Tensor labels;  // i32[n], or f32: numbers to estimate, one for each logit
};

// Reads `batch` samples of a split and classifies them; random parts such as dropout act on the training split.
using Classifier = std::function<Classified(GraphBuilder& b, DataSplit split, int64_t batch)>;

// From images [n,c,h,w], or other samples, to logits [n,classes].
using ImageModel = std::function<Tensor(const Tensor& images, bool training)>;
// `model` on the images of `data`. Both are copied.
Classifier OnImages(ImageModel model, ImageData data);
// `model` on the samples that a job asks for. REQUIRES: their kind has a `read`.
Classifier OnSamples(ImageModel model, const ModelRequest& request);

// The graphs "train" and, if asked for, "evaluate". Errors of the model's graph come out as InvalidArgument.
absl::StatusOr<std::vector<Graph>> ClassifierProgram(const Classifier& classifier, const BatchSizes& batches,
                                                     const OpRegistry& ops);

}  // namespace oneflow
