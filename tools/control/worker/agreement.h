// What all workers of a job decide together, between runs.
#pragma once

#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

// A status as workers tell it, and back. What is no UTF-8 in its message, such as a name in a user's file, is spelled
// out: a message of protobuf with such a text is lost whole.
pb::WorkerFailed ToProto(const absl::Status& status);
absl::Status FromProto(const pb::WorkerFailed& failed);

// All processes come here with how something went for them, and go on with the same: OK if it went well everywhere,
// else the error of the first process that has one, whose number it says if there are several.
absl::Status Agree(Engine& engine, const absl::Status& mine);

}  // namespace oneflow
