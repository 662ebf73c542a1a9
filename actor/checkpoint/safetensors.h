// Weight files in the safetensors format: logical tensors by name, as Python's `safetensors` reads and writes them.
//
//   | u64 n, little-endian | n bytes of JSON: {"name": {"dtype": "F32", "shape": [..], "data_offsets": [a, b]}, ...} |
//   data |
//
// Both sides map the file. Several processes may write disjoint parts of one file: one creates it, the others attach.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "oneflow_core/shape.h"
#include "oneflow_core/status.h"

namespace oneflow {

class SafetensorsReader {
 public:
  struct Entry {
    TensorType type;
    const void* data = nullptr;  // dense, row-major; lives as long as the reader
  };

  // NotFound if there is no such file; InvalidArgument naming the file, the tensor and both values if it is malformed:
  // a header that does not fit, is no JSON or lacks a key, an unknown dtype, offsets that do not match the shape,
  // overlap, leave gaps or reach past the end.
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);

  const std::map<std::string, Entry>& tensors() const { return tensors_; }

 private:
  std::shared_ptr<const void> mapping_;
  std::map<std::string, Entry> tensors_;
};

class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    TensorType type;
  };

  // Creates (or truncates) the file with its header and zeroed data. Tensors are laid out in the order of their names.
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path, std::vector<Tensor> tensors);
  // Maps a file that another process Create()d with the same tensors. FailedPrecondition if it is another file.
  static absl::StatusOr<SafetensorsWriter> Attach(const std::string& path, std::vector<Tensor> tensors);

  // Where the logical tensor's bytes go. REQUIRES: the tensor was listed.
  void* data(const std::string& name) const { return data_.at(name); }
  // Flushes to disk and unmaps. Unavailable if the disk refuses.
  absl::Status Close();

 private:
  static absl::StatusOr<SafetensorsWriter> Map(const std::string& path, std::vector<Tensor> tensors, bool create);

  std::string path_;
  std::shared_ptr<void> mapping_;
  size_t size_ = 0;
  std::map<std::string, void*> data_;
};

// What a file begins with whose data are these tensors, one right behind the other in this order.
std::string SafetensorsHeader(const std::vector<SafetensorsWriter::Tensor>& tensors);

}  // namespace oneflow
