// The same training in PyTorch, in a child process: it gets the weights that we began with, the batches we read and the
// learning rates we used, and tells its losses and times.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/job.pb.h"
#include "tools/bench/measurement.h"

namespace oneflow {

struct PyTorchCase {
  std::string python;  // interpreter, found in $PATH
  std::string script;
  std::string dir;      // for what we hand over
  std::string weights;  // safetensors file
  pb::JobConfig config;
  int warmup = 0, steps = 0, threads = 0;
};

// What the Python program says of itself: "PyTorch 2.1.0 eager".
struct PyTorchRound {
  std::string title;
  Round round;
};

inline constexpr int kNoPyTorch = 3;  // exit code of programs that find none

// Exit code of an interpreter that is found in $PATH, with the environment of our workers; what it writes is appended
// to the file `log`. Cancelled, soon, if `stop` becomes true; DeadlineExceeded after a quarter of an hour; Internal if
// it was killed.
absl::StatusOr<int> RunPython(const std::string& python, const std::vector<std::string>& arguments,
                              const std::string& log, const std::atomic<bool>& stop);

// Unavailable if the interpreter has no PyTorch; Cancelled, soon, if `stop` becomes true; Internal with its last words
// if it fails.
absl::StatusOr<PyTorchRound> RunPyTorch(const PyTorchCase& pytorch, const std::vector<double>& learning_rates,
                                        const std::atomic<bool>& stop);

}  // namespace oneflow
