// Tables that say how a model's variables lie in checkpoints of another library (proto/weight_mapping.proto): those in
// mappings/, which are part of the program, and a user's own.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"
#include "proto/weight_mapping.pb.h"
#include "tools/study/weights/name_pattern.h"

namespace oneflow {

// What tables call the sizes of the images that the job's data has, and the kind of its data, beside the model's own
// fields.
inline constexpr const char* kFieldsOfImages[] = {"data.channels", "data.height", "data.width"};
inline constexpr const char kKindOfData[] = "data.kind";

// A table that was checked, with its patterns parsed.
struct Mapping {
  std::string name;  // of the file, for errors: "gpt2"
  pb::WeightMapping table;
  struct Rule {
    NamePattern ours, theirs;
    pb::WeightRule said;
  };
  std::vector<Rule> rules;

  // Whether a tensor of theirs is one that no model needs.
  bool Skips(const std::string& theirs) const;
};

// Whether `pattern`, with * and ?, is the name. A star stands for any characters, slashes too.
bool Matches(const std::string& pattern, const std::string& name);

// Parses and checks a table. `file` names it in errors. InvalidArgument for text that is none, a table without model,
// families or rules, a name that is no pattern, a part that is none, a value that is no JSON, and a field that the
// model does not have.
absl::StatusOr<Mapping> ParseMapping(absl::string_view text, const std::string& file);
// Of a file. Errors of ReadText() (tools/job/read_text.h) too.
absl::StatusOr<Mapping> ReadMapping(const std::string& path);

// All that are part of the program, by name. Internal if one is malformed.
absl::StatusOr<std::vector<Mapping>> BuiltInMappings();

}  // namespace oneflow
