// The same training in PyTorch, in a child process: it gets the weights that we began with, the batches we read and the
// learning rates we used, and tells its losses, its times and the most memory that it held.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/status.h"
#include "proto/job.pb.h"
#include "tools/bench/bench_case.h"
#include "tools/bench/measurement.h"

namespace oneflow {

struct PyTorchCase {
  std::string python;  // interpreter, found in $PATH
  std::string script;
  std::string dir;             // for what we hand over
  nlohmann::json model;        // which of pytorch_models.py ("model"), and what that wants to know
  std::string mode = "eager";  // or "compile", "compile-layers"; and "-channels-last" behind it
  pb::JobConfig config;        // device, optimizer and precision
  std::string weights;         // safetensors file
  std::string batches;         // file that the model reads
  int warmup = 0, steps = 0, threads = 0;
};

// What the Python program says of itself: "PyTorch 2.1.0 eager, fused AdamW".
struct PyTorchRound {
  std::string title;
  Round round;
};

// Exit codes of programs that find none, and of those that cannot do what is asked of them.
inline constexpr int kNoPyTorch = 3;
inline constexpr int kCannot = 4;

// Exit code of an interpreter that is found in $PATH, with the environment of our workers; what it writes is appended
// to the file `log`. What torch.compile made is kept in the folder `cache` for the next call; empty: where it always
// is. Cancelled, soon, if `stop` becomes true; DeadlineExceeded after a quarter of an hour; Internal if it was killed.
absl::StatusOr<int> RunPython(const std::string& python, const std::vector<std::string>& arguments,
                              const std::string& log, const std::atomic<bool>& stop, const std::string& cache = "");

// Asks a program that lies beside --pytorch-script: `stem`.py of the request, in the context's folder. Its answer, an
// object with "seconds"; nothing if the interpreter has no PyTorch. NotFound if there is no such program; errors of
// RunPython; Internal with its last words if it fails.
absl::StatusOr<std::optional<nlohmann::json>> AskPyTorch(const BenchContext& context, const std::string& stem,
                                                         const nlohmann::json& request);

// The GPT of a config, as the program wants to know it, and its batches of steps 0..steps-1 as bytes: per step [batch,
// context] inputs, then as many labels. Errors of OpenSource and reading.
nlohmann::json PyTorchTextModel(const pb::JobConfig& config);
absl::StatusOr<std::string> TextBatches(const pb::JobConfig& config, int steps);

// Unavailable if the interpreter has no PyTorch, Unimplemented with the reason if that cannot run in this mode or
// precision; NotFound if there is no such script; Cancelled, soon, if `stop` becomes true; Internal with its last words
// if it fails.
absl::StatusOr<PyTorchRound> RunPyTorch(const PyTorchCase& pytorch, const std::vector<double>& learning_rates,
                                        const std::atomic<bool>& stop);

// What the program wrote when it ended with `code`: 0, or that it cannot (pytorch_peer.py). For RunPyTorch.
absl::StatusOr<PyTorchRound> ReadPyTorchAnswer(const std::string& answer, int code);

}  // namespace oneflow
