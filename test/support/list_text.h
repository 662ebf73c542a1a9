// The `init` of a variable that has these values.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow::testing {

template <typename T>
std::string ListText(const std::vector<T>& values) {
  return absl::StrCat("list(", absl::StrJoin(values, ","), ")");
}

}  // namespace oneflow::testing
