// Weight files in the safetensors format: logical tensors by name, as Python's `safetensors` reads and writes them.
//
//   | u64 n, little-endian | n bytes of JSON: {"name": {"dtype": "F32", "shape": [..], "data_offsets": [a, b]}, ...} |
//   data |
//
// Files are read and written by ranges, never mapped. A file that is truncated meanwhile is an error and not a signal.
// Processes on several hosts may write disjoint ranges of one file on a network file system; mapped pages would be
// written back whole. One process creates the file, the others attach.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actor/checkpoint/safetensors_header.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Thread-safe. Holds the file open.
class SafetensorsReader {
 public:
  struct Entry {
    StoredType type;
    uint64_t offset = 0;  // of its bytes in the file; dense, row-major
  };

  // NotFound if there is no such file; InvalidArgument naming the file, the tensor and both values if it is malformed:
  // a header that does not fit, or one that ParseSafetensorsHeader() (safetensors_header.h) refuses. The error
  // recognises a folder, a pickle, an index of shards and a pointer of Git LFS.
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);

  const std::map<std::string, Entry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Copies bytes [first, first + num_bytes) of the tensor. DataLoss if the file has become shorter, Unavailable if the
  // disk refuses. REQUIRES: `entry` is of this reader and the bytes lie in the tensor.
  absl::Status Read(const Entry& entry, int64_t first, int64_t num_bytes, void* to) const;

 private:
  std::string path_;
  std::shared_ptr<const int> fd_;  // closes it
  std::map<std::string, Entry> tensors_;
  std::map<std::string, std::string> metadata_;
};

class SafetensorsWriter {
 public:
  using Tensor = SafetensorsItem;

  // Creates (or truncates) the file with its header and zeroed data, whose room is reserved. Tensors are laid out in
  // the order of their names. ResourceExhausted if the disk has no room, InvalidArgument if the file cannot be made.
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path, std::vector<Tensor> tensors,
                                                  const std::map<std::string, std::string>& metadata = {});
  // Opens a file that another process Create()d with the same tensors and no metadata. FailedPrecondition if it is
  // another file.
  static absl::StatusOr<SafetensorsWriter> Attach(const std::string& path, std::vector<Tensor> tensors);

  // Writes bytes [first, first + num_bytes) of the tensor. Errors: DiskError(). REQUIRES: the tensor was listed and the
  // bytes lie in it.
  absl::Status Write(const std::string& name, int64_t first, const void* from, int64_t num_bytes) const;
  // Returns when the data written here is on the disk. Errors: DiskError().
  absl::Status Close();

 private:
  static absl::StatusOr<SafetensorsWriter> OpenFile(const std::string& path, std::vector<Tensor> tensors,
                                                    const std::map<std::string, std::string>& metadata, bool create);

  std::string path_;
  std::shared_ptr<const int> fd_;  // closes it
  std::map<std::string, uint64_t> offsets_;
};

}  // namespace oneflow
