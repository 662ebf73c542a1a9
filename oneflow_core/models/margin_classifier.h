// Recognition of very many classes (faces, products) in the manner of InsightFace: a network embeds the sample, and the
// logits are cosines between the embedding and one vector per class, less a margin at the right class (CosFace: Wang et
// al., 2018).
//
//   images ──► network ──► linear ──► embedding e / |e|          ─┐
//                                             class rows w / |w| ─┴─► scale * (cosine - margin [class = label])
//                                                                    ──► cross entropy
//
// The network is hidden layers with ReLUs, or a ResNet up to its head, as the job's field `depth` says (resnet.cc).
// With `head_norms` the linear layer has norms around it, as that of InsightFace, and sees all pixels of a ResNet
// instead of their mean:
//
//   network ──► batch norm ──► dropout ──► linear ──► batch norm without a scale ──► e / |e|
//
// The class rows are split over mesh axis "tp", so the logits are split over classes and are never gathered: of a row
// of logits only its maximum, its sum of exponentials and its label's logit travel. Samples are dealt out over all
// ranks before the head.
#pragma once

#include <optional>
#include <vector>

#include "oneflow_core/models/config.h"
#include "oneflow_core/models/data.h"

namespace oneflow {

struct MarginClassifierConfig {
  std::vector<int64_t> widths = {256};  // of the hidden layers
  std::optional<AttrMap> resnet;        // or the fields of a ResNet: depth, width, small_images
  bool head_norms = false;
  double dropout = 0;  // with head_norms
  int64_t embedding = 64;
  double scale = 16;    // of the cosines; larger separates more classes
  double margin = 0.2;  // in training only; 0: none
};

// The graphs "train" and, if asked for, "evaluate", with "loss" and "accuracy". Variables "fc0/weight", ...,
// "embedding/weight", "classes", with norms "norm_in/...", "norm_out/bias". InvalidArgument naming the field if the
// config is impossible.
absl::StatusOr<std::vector<Graph>> MarginClassifierProgram(const MarginClassifierConfig& config,
                                                           const PrototypeData& data, const BatchSizes& batches,
                                                           const OpRegistry& ops);

}  // namespace oneflow
