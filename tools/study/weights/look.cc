#include "tools/study/weights/look.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/study/checkpoint/tensor_difference.h"
#include "tools/study/weights/weights.h"

namespace oneflow {
namespace {

constexpr size_t kWidestName = 60;  // longer ones push their line

std::string Line(int width, absl::string_view name, absl::string_view dtype, absl::string_view shape,
                 absl::string_view bytes, absl::string_view file) {
  return absl::StrFormat("%-*s  %-6s  %-16s  %14s  %s\n", width, name, dtype, shape, bytes, file);
}

}  // namespace

absl::StatusOr<std::string> WeightsText(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const Weights weights, Weights::Open(path));
  size_t width = 6;
  for (const auto& [name, tensor] : weights.tensors()) width = std::max(width, std::min(kWidestName, name.size()));
  std::string text = Line(static_cast<int>(width), "tensor", "dtype", "shape", "bytes", "file");
  int64_t elements = 0, bytes = 0;
  for (const auto& [name, tensor] : weights.tensors()) {
    text += Line(static_cast<int>(width), name, tensor.type.dtype.name(), tensor.type.shape.ToString(),
                 absl::StrCat(tensor.type.num_bytes()), tensor.file);
    elements += tensor.type.shape.count();
    bytes += tensor.type.num_bytes();
  }
  absl::StrAppend(&text, weights.tensors().size(), " tensors, ", elements, " elements, ", bytes, " bytes\n");
  for (const std::string& name : weights.Fresh()) absl::StrAppend(&text, "starts with fresh values: ", name, "\n");
  return text;
}

absl::StatusOr<std::string> WeightsDiffText(const std::string& a, const std::string& b) {
  OF_ASSIGN_OR_RETURN(const Weights first, Weights::Open(a));
  OF_ASSIGN_OR_RETURN(const Weights second, Weights::Open(b));
  std::string text;
  for (const auto& [name, tensor] : first.tensors()) {
    const auto other = second.tensors().find(name);
    if (other == second.tensors().end()) {
      absl::StrAppend(&text, name, ": only in '", a, "', ", tensor.type.ToString(), "\n");
      continue;
    }
    const StoredType& type = other->second.type;
    std::vector<std::string> what;
    if (type != tensor.type) what.push_back(absl::StrCat(tensor.type.ToString(), " and ", type.ToString()));
    if (type.shape == tensor.type.shape) {
      OF_ASSIGN_OR_RETURN(const std::vector<char> x, ReadWhole(first, name));
      OF_ASSIGN_OR_RETURN(const std::vector<char> y, ReadWhole(second, name));
      const std::string values = TensorDifference(tensor.type, x.data(), type, y.data());
      if (!values.empty()) what.push_back(values);
    }
    if (!what.empty()) absl::StrAppend(&text, name, ": ", absl::StrJoin(what, "; "), "\n");
  }
  for (const auto& [name, tensor] : second.tensors()) {
    if (first.tensors().count(name) > 0) continue;
    absl::StrAppend(&text, name, ": only in '", b, "', ", tensor.type.ToString(), "\n");
  }
  return text;
}

}  // namespace oneflow
