// Job configs as users write them: protobuf text plus overrides, with the place of every field remembered for errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"
#include "proto/job.pb.h"

namespace oneflow {

// A parsed config, and where each field that is set came from.
struct SourcedConfig {
  pb::JobConfig config;
  std::string file;                           // as the user named it
  std::map<std::string, std::string> places;  // "train.batch_size" -> "job.pbtxt:12" or "--set train.batch_size=7"

  // "job.pbtxt:12: train.batch_size"; for a field that is not set, the nearest enclosing message's place. Of a repeated
  // field, "cluster.hosts[1]", the first element's place.
  std::string Where(absl::string_view path) const;
};

// Parses `text`. InvalidArgument "FILE:LINE:COLUMN: ..." for the first thing that is malformed or unknown.
absl::StatusOr<SourcedConfig> ParseConfig(absl::string_view text, const std::string& file);

// Applies "train.steps=20", "model.gpt.dropout=0.1", "model.mlp.widths=[64,32]", "save_weights=/tmp/w",
// "data.csv.features=['a', 'b']", "evaluate={every:5}", "cluster.hosts=[{count:1}, {count:2}]". InvalidArgument naming
// the override, the message, and the fields it has, or the value and the type wanted.
absl::Status ApplyOverride(absl::string_view assignment, SourcedConfig& config);
// The same of what the user has written elsewhere, as `place` says.
absl::Status ApplyOverride(absl::string_view assignment, SourcedConfig& config, const std::string& place);

// InvalidArgument naming a text that is not UTF-8: a message that holds it reaches nobody.
absl::Status CheckTexts(const SourcedConfig& config);

// Reads the file, then applies the overrides in order. NotFound if there is no such file.
absl::StatusOr<SourcedConfig> LoadConfig(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace oneflow
