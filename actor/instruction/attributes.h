// Attributes of the plan as kernels and sources read them.
#pragma once

#include "oneflow_core/attr.h"
#include "proto/program.pb.h"

namespace oneflow {

AttrMap ToAttrMap(const google::protobuf::RepeatedPtrField<pb::Attribute>& attributes);

}  // namespace oneflow
