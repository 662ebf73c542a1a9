// What to tell somebody who named a field or a value that a job config does not have.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace oneflow {

// "Train has no field 'step'; it has steps, batch_size, ...; did you mean 'steps'?". The question names the fields of
// `type` that are spelled alike; if there are none, the paths of fields of that very name elsewhere in a job config.
std::string NoField(const google::protobuf::Descriptor& type, absl::string_view name);

// "F32, BF16, F16".
std::string ValuesOf(const google::protobuf::EnumDescriptor& type);

// What the parser of protobuf text says of an unknown field or an unknown value of an enum, in the words above; any
// other message as it is.
std::string InOurWords(const std::string& parser_message);

}  // namespace oneflow
