// Lists of texts as one text, for attributes of nodes, which hold no lists of texts: each text in quotes, those in it
// doubled, with commas between: "a","b ""c""".
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "oneflow_core/status.h"

namespace oneflow {

std::string JoinTexts(absl::Span<const std::string> texts);
// Inverse of JoinTexts(). InvalidArgument if `text` is none of its results.
absl::StatusOr<std::vector<std::string>> SplitTexts(absl::string_view text);

}  // namespace oneflow
