// The classifier of resnet.cc, for programs in C++.
#pragma once

#include "oneflow_core/builder.h"

namespace oneflow {

// Logits [n,classes] of images [n,c,h,w] by the fields of the job's message ResNet. REQUIRES: there is such a depth.
Tensor ResNetLogits(const AttrMap& fields, const Tensor& images, bool training);

}  // namespace oneflow
