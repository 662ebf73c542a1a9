// The header of a safetensors file: JSON that says which tensors lie where in the data behind it.
//
//   {"__metadata__": {"format": "pt"}, "name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "actor/checkpoint/stored_type.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The format's own limit, so that a damaged length cannot make us parse gigabytes.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsContents {
  struct Tensor {
    StoredType type;
    uint64_t begin = 0;  // of its bytes in the data
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads a header that `data_bytes` bytes follow. InvalidArgument naming the tensor and both values if it is no JSON
// object in UTF-8, an entry lacks a key, a dtype is unknown, a size is negative or no whole number, elements do not end
// on a byte, offsets do not match the shape, overlap, leave gaps or do not cover the data, or the metadata hold
// something else than texts. Accepted are blanks around the JSON, any order, unknown keys, metadata that are null,
// tensors without elements, and a name that comes twice, of which the last counts.
absl::StatusOr<SafetensorsContents> ParseSafetensorsHeader(absl::string_view json, uint64_t data_bytes);

struct SafetensorsItem {
  std::string name;
  TensorType type;
};

// The length and the header of a file with these tensors, one right behind the other in this order.
std::string SafetensorsHeader(const std::vector<SafetensorsItem>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace oneflow
