// Reads boxes of a checkpoint's tensors, from any slices, and rejects bytes with a wrong checksum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actor/checkpoint/box.h"
#include "oneflow_core/status.h"
#include "proto/checkpoint.pb.h"

namespace oneflow {

// Thread-safe; holds the pieces open.
class CheckpointReader {
 public:
  // Reads the manifest and the headers of all pieces. NotFound or DataLoss naming the file, the fault and both values
  // if one is missing, of another size or damaged.
  static absl::StatusOr<CheckpointReader> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const pb::CheckpointManifest& manifest() const { return manifest_; }
  // By name; null if there is none.
  const pb::CheckpointTensor* Find(const std::string& name) const;

  // Copies the box, dense and row-major, to `to`, and checks the blocks that it lies in. DataLoss naming file, tensor,
  // place and both checksums. REQUIRES: the box lies in the tensor.
  absl::Status Read(const pb::CheckpointTensor& tensor, const Box& box, char* to) const;

 private:
  struct File;  // of a piece
  class Blocks;

  absl::Status OpenPiece(int piece);

  std::string folder_;
  pb::CheckpointManifest manifest_;
  std::vector<std::shared_ptr<const File>> files_;  // index = piece
};

}  // namespace oneflow
