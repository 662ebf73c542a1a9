// The classifier of resnet.cc, for programs in C++.
#pragma once

#include <optional>

#include "oneflow_core/builder.h"
#include "oneflow_core/models/config.h"

namespace oneflow {

// What is wrong with `depth`: there is no such network.
std::optional<FieldComplaint> CheckResNet(const AttrMap& fields);

// What the last stage makes of images [n,c,h,w], by the fields `depth`, `width` and `small_images`: [n,features,h',w'],
// and the mean over pixels, which the head sees: [n,features]. REQUIRES: there is such a depth.
Tensor ResNetPixels(const AttrMap& fields, const Tensor& images, bool training);
Tensor ResNetFeatures(const AttrMap& fields, const Tensor& images, bool training);

// Logits [n,classes] of images [n,c,h,w] by the fields of the job's message ResNet. REQUIRES: there is such a depth.
Tensor ResNetLogits(const AttrMap& fields, const Tensor& images, bool training);

}  // namespace oneflow
