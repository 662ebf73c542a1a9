// A weight file as tests look at it: all of it in memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actor/checkpoint/safetensors.h"
#include "oneflow_core/status.h"

namespace oneflow::testing {

struct WeightFile {
  struct Entry {
    TensorType type;
    std::vector<char> bytes;
    template <typename T>
    const T* as() const {
      return reinterpret_cast<const T*>(bytes.data());
    }
  };
  std::map<std::string, Entry> tensors;
};

inline absl::StatusOr<WeightFile> ReadWeightFile(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  WeightFile file;
  for (const auto& [name, entry] : reader.tensors()) {
    WeightFile::Entry& read = file.tensors[name];
    const std::optional<TensorType> type = entry.type.ours();
    if (!type.has_value()) return absl::InvalidArgumentError(name + " is " + entry.type.ToString());
    read.type = *type;
    read.bytes.resize(static_cast<size_t>(entry.type.num_bytes()));
    OF_RETURN_IF_ERROR(reader.Read(entry, 0, entry.type.num_bytes(), read.bytes.data()));
  }
  return file;
}

}  // namespace oneflow::testing
