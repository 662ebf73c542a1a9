// The config.json of a folder in Hugging Face's form, held against the fields of a job's model, and made of them.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/attr.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/status.h"
#include "tools/study/weights/mapping.h"

namespace oneflow {

inline constexpr char kConfigFile[] = "config.json";

// NotFound if the folder has none; InvalidArgument if it is not a JSON object, or is nested too deep.
absl::StatusOr<nlohmann::json> ReadHfConfig(const std::string& folder, const std::string& file = kConfigFile);

// The mapping's family that config.json is of, by model_type or, where there is none, by its architectures; of several
// the first whose conditions the model's fields fulfil, or else the first. Null: none.
const pb::Family* FamilyOf(const Mapping& mapping, const nlohmann::json& config, const AttrMap& fields = {});
// The first whose conditions the model's fields fulfil. InvalidArgument, naming the conditions, if there is none.
absl::StatusOr<const pb::Family*> FamilyFor(const Mapping& mapping, const AttrMap& fields);

// A value for people. Lists and objects are only called so.
std::string ValueText(const nlohmann::json& value);

// A field in which config.json and the model differ.
struct ConfigDifference {
  std::string theirs, their_value;  // "n_layer", "12"
  std::string ours, our_value;      // "layers", "6"; no field: a constant of the model
};
// All of them, in the order of the mapping. InvalidArgument naming the field if config.json lacks one that has no
// default, or the job's model lacks one that the mapping names.
absl::StatusOr<std::vector<ConfigDifference>> CompareConfig(const Mapping& mapping, const pb::Family& family,
                                                            const nlohmann::json& config, const AttrMap& fields);

// The config.json of a model with these fields. Errors as above.
absl::StatusOr<nlohmann::ordered_json> MakeHfConfig(const Mapping& mapping, const pb::Family& family,
                                                    const AttrMap& fields, DType dtype);

}  // namespace oneflow
