// What people do with checkpoints outside of a job: look at them, prove them whole, compare them, exchange them with
// other programs. A name is a checkpoint's folder, or a job's folder of them, which stands for its last.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "oneflow_core/status.h"
#include "proto/checkpoint.pb.h"

namespace oneflow {

// The folder of the checkpoint: that which is named, or the last of a job's folder that has a manifest. InvalidArgument
// if the name is a file; NotFound if there is no such folder or no checkpoint in it; DataLoss if all are damaged.
absl::StatusOr<std::string> FindCheckpoint(const std::string& name);

// A table of the checkpoints in the folder, or of one. NotFound if there is none.
absl::StatusOr<std::string> ListText(const std::string& name);

// Reads every byte of one, or of all in a job's folder. `on_checked` is called with a line for each. DataLoss, after
// all, if any is damaged.
absl::Status VerifyCheckpoints(const std::string& name, const std::function<void(const std::string&)>& on_checked);

// What differs, a line for each tensor: missing, of another type, or by how much. Empty if all is the same to the bit.
absl::StatusOr<std::string> DiffText(const std::string& a, const std::string& b);

// From a checkpoint to a safetensors file of logical tensors: its weights or, with `all`, the optimizer's state and
// everything else too. From such a file to a checkpoint of `step` in the job's folder `to`, whose tensors are weights.
// What is there already is not overwritten: AlreadyExists.
absl::Status ConvertCheckpoint(const std::string& from, const std::string& to, bool all, int64_t step);

}  // namespace oneflow
