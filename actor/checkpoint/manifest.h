// The folder of a job's checkpoints: names, manifests, and how a checkpoint appears and disappears as a whole.
//
//   path/step-000000400/          a checkpoint
//        step-000000500.writing-7f/   one that attempt 0x7f has not finished: nobody reads it
//
// A checkpoint is made under another name, flushed to the disk piece by piece, and then renamed. A process killed in
// between leaves a folder that nobody takes for a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/shape.h"
#include "oneflow_core/status.h"
#include "proto/checkpoint.pb.h"

namespace oneflow {

inline constexpr uint32_t kCheckpointVersion = 1;
// Each block of this many bytes of a slice has its own checksum, so that a part can be read alone.
inline constexpr int64_t kCheckpointBlock = int64_t{1} << 20;

// "PATH/step-000000500", and the folder of an attempt that has not finished it.
std::string CheckpointFolder(const std::string& path, int64_t step);
std::string UnfinishedFolder(const std::string& path, int64_t step, uint64_t attempt);
// "piece-00003.safetensors", "piece-00003.part", "manifest".
std::string PieceName(int process);
std::string PartName(int process);
inline constexpr char kManifestName[] = "manifest";

// The file of the folder that names its best checkpoint, "step-000000500" and a line feed.
inline constexpr char kBestName[] = "best";
// The step that it names; -1 if there is no such file. DataLoss if it names no checkpoint, Unavailable if it cannot be
// read.
absl::StatusOr<int64_t> ReadBest(const std::string& path);
// Writes the file, whole or not at all; removes it if `step` is negative. Errors of the disk.
absl::Status WriteBest(const std::string& path, int64_t step);

// The steps of the folder's checkpoints, ascending; none if there is no such folder. A folder without manifest counts:
// it is a damaged one. Unavailable if it cannot be listed.
absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& path);

// NotFound if there is no manifest; DataLoss naming file, fault and both values if it is damaged, of another version,
// or impossible: slices that do not tile their tensor, lie outside of their piece or have another number of checksums
// than blocks.
absl::StatusOr<pb::CheckpointManifest> ReadManifest(const std::string& folder);

// Joins the parts of all processes, in their order. DataLoss if they are not those of one checkpoint.
absl::Status AddParts(const std::vector<pb::CheckpointPart>& parts, pb::CheckpointManifest& manifest);

// Writes the manifest into the unfinished folder and gives it its name, replacing a folder of that name. Unavailable or
// ResourceExhausted if the disk refuses.
absl::Status CommitCheckpoint(const std::string& unfinished, const std::string& folder,
                              const pb::CheckpointManifest& manifest);

// Writes another manifest into a finished checkpoint, whole or not at all: of the same tensors, with more facts. Errors
// of the disk.
absl::Status AmendManifest(const std::string& folder, const pb::CheckpointManifest& manifest);

// First it is no checkpoint any more, then it is removed.
absl::Status RemoveCheckpoint(const std::string& folder);
// Removes unfinished folders of other attempts than this one.
absl::Status RemoveUnfinished(const std::string& path, uint64_t attempt);

// The type of a tensor of the manifest. REQUIRES: ReadManifest() accepted it.
TensorType TypeOf(const pb::CheckpointTensor& tensor);

}  // namespace oneflow
