// The fields of a job config, described: what they are declared with and the comment beside them in proto/job.proto.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct FieldHelp {
  std::string path;  // "train.batch_size"; of a field of a repeated message "cluster.hosts.count"
  std::string type;  // "int64", "string", "Precision.Type", "repeated double", "Optimizer"
  // "[1, 262144]", "'cpu', 'cuda'", "F32, BF16, F16", "file, read"; empty: anything
  std::string allowed;
  std::string usual;  // its default; empty: none is declared
  std::string help;   // the comment, in one line
};

// All fields, or those at or below the field `prefix`, in the order of proto/job.proto. NotFound if there is none,
// naming one that is spelled alike.
absl::StatusOr<std::vector<FieldHelp>> ConfigFields(absl::string_view prefix);

// The fields of one message of proto/job.proto, with paths that begin with `prefix`, and of all messages in it.
std::vector<FieldHelp> FieldsOf(const google::protobuf::Descriptor& message, const std::string& prefix);

// The comment above a message of proto/job.proto, in one line.
std::string CommentOf(const google::protobuf::Descriptor& message);

// For people: a field a paragraph.
std::string FieldsText(const std::vector<FieldHelp>& fields);

}  // namespace oneflow
