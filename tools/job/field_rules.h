// What the fields of a config say of themselves (proto/field_options.proto), obeyed by reflection: ranges, defaults,
// required fields, paths. A field that is added to proto/job.proto needs no other code for these. Checks that compare
// several fields are in validate.cc. The attributes of an optimizer's rule are described by its row of
// oneflow_core/optimizer_rules.h instead, which holds for their fields.
#pragma once

#include <functional>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/field_options.pb.h"
#include "tools/job/config.h"

namespace oneflow {

pb::FieldRule RuleOf(const google::protobuf::FieldDescriptor& field);

// InvalidArgument of the first field that breaks its own rule: "train.batch_size: 0 is not in [1, 262144]",
// "checkpoint.path: is missing", "cluster.device: 'tpu' is neither 'cpu' nor 'cuda'". Elements of repeated messages are
// counted from 0: "cluster.hosts[1].count". An `optional` field that is absent is not checked.
absl::Status CheckFields(const SourcedConfig& config);

// Gives fields that say nothing their declared defaults, in the messages that are present.
void FillDefaults(google::protobuf::Message& message);
template <typename Message>
Message WithDefaults(Message message) {
  FillDefaults(message);
  return message;
}

// A field that names a file or folder.
struct PathField {
  std::string what;  // its path in the message, or what its rule calls it
  pb::FieldRule::Path use;
  std::string path;  // never empty
};
// Calls `visit` for every path in the message, in the order in which fields are declared.
void ForEachPath(const google::protobuf::Message& message, const std::function<void(const PathField&)>& visit);

// Relative paths begin at the working directory of this process.
void MakePathsAbsolute(google::protobuf::Message& message);

}  // namespace oneflow
