// The text form of attributes: exact, and the same wherever ops are written out.
//
//   {alpha=0.5, dtype="bf16", axes=[0,2], keepdims=true}
//
// An attribute is true or false, an integer, a number with a '.', an 'e', "inf" or "nan" (shortest digits that read
// back to the same double; every NaN is "nan"), a string with C escapes, or a list of integers.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/line_reader.h"
#include "oneflow_core/status.h"

namespace oneflow {

// `text` in double quotes, with C escapes: what LineReader::String() reads.
std::string QuotedText(absl::string_view text);

// "{alpha=0.5, axis=1}", by name; "{}" if there is none.
std::string AttrsToText(const AttrMap& attrs);

// Inverse of AttrsToText(); none if the next token is not '{'. The text need not be trusted: InvalidArgument, naming
// the attribute, if it is malformed or a name comes twice.
absl::StatusOr<AttrMap> ReadAttrs(LineReader& line);

}  // namespace oneflow
