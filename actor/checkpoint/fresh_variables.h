// Variables that a weight file lacks on purpose: a job that starts from the file gives them their initial values. A
// file that lacks any other variable is refused. The file itself names them, one a line, under a key of its metadata.
#pragma once

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow {

inline constexpr char kFreshKey[] = "oneflow.fresh";

// The value of the key.
inline std::string FreshText(const std::set<std::string>& names) { return absl::StrJoin(names, "\n"); }

// Inverse, of a file's metadata. Empty if they have no such key.
inline std::set<std::string> FreshVariables(const std::map<std::string, std::string>& metadata) {
  const auto names = metadata.find(kFreshKey);
  if (names == metadata.end()) return {};
  return absl::StrSplit(names->second, '\n');
}

}  // namespace oneflow
