// Fields of what a job's plugins have added, from the texts of its config:
//
//   model { custom { name: "mine" set: "width=64" } }
#pragma once

#include <vector>

#include "google/protobuf/message.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/models/config.h"
#include "oneflow_core/status.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"
#include "tools/job/field_help.h"

namespace oneflow {

// `custom` of a Model, Data, Optimizer or ParameterGroup; null if it is of another kind.
const pb::Custom* CustomOf(const google::protobuf::Message& message);

// What it says of the fields that the plugin describes, with its defaults; paths are absolute. InvalidArgument if there
// is no such model, kind of data or optimizer, or a text is not of the form field=value, names no field, says one
// twice, or has a value of another type or outside of the field's range.
absl::StatusOr<AttrMap> CustomFields(const google::protobuf::Message& message);

// The fields that a plugin describes, for people.
std::vector<FieldHelp> FieldsOf(const std::vector<FieldDef>& fields);

// Complains of what is wrong in any `custom` of the config.
void CheckCustom(const pb::JobConfig& config, Checker& check);

}  // namespace oneflow
