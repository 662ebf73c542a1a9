// The classifier of vit.cc, for programs in C++.
#pragma once

#include "oneflow_core/builder.h"

namespace oneflow {

// Logits [n,classes] of images [n,c,h,w] by the fields of the job's message Vit. The builder fails with InvalidArgument
// if patches do not fill the images or heads do not divide the width.
Tensor VitLogits(const AttrMap& fields, const Tensor& images, bool training);

}  // namespace oneflow
