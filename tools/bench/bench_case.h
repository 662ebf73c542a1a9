// A case of `oneflow bench` that measures something of its own, beside the layouts of a GPT: what it measures in a
// round, and how it tells that. A new case is a file with a function that makes it, and a line of the table in
// bench.cc.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "tools/bench/plot.h"
#include "tools/control/client.h"

namespace oneflow {

// What the command line says, and what every case may use. All of it outlives the cases.
struct BenchContext {
  const OpRegistry& ops;
  const std::atomic<bool>& stop;  // set when the user has had enough: end with Cancelled soon
  std::vector<std::string> sets;  // overrides of the fields of a job, "train.batch_size=8"
  int warmup = 0, steps = 0;      // of a job: before the measured ones, and measured
  int cores = 0;                  // for all processes of a case together
  std::string dir;                // for files, gone at the end
  std::string sample_text;        // a file to train a GPT on
  std::string pytorch;            // Python interpreter; empty: no comparison
  std::string pytorch_script;     // models in PyTorch
  std::string pytorch_modes;      // of those that a case compares with, separated by commas; empty: all
  // What the command line itself says, for cases whose steps are longer than others'.
  std::optional<int> asked_warmup, asked_steps;
  SchedulerAddress scheduler = "";  // of the cluster to run on, for cases of several hosts; empty: one of this machine
};

class BenchCase {
 public:
  virtual ~BenchCase() = default;

  // Measures once more. Says in a few words what came of it: "87 % hidden".
  virtual absl::StatusOr<std::string> RunRound() = 0;
  // For people and for programs. REQUIRES: at least one round.
  virtual std::string Text() const = 0;
  virtual nlohmann::json Json() const = 0;
  // What is looked at rather than read (--plots). REQUIRES: as above.
  virtual std::vector<Plot> Plots() const { return {}; }
};

// Progress: the next part of a round, on a line of its own of stderr, behind which what came of it may stand. Cancelled
// if the user has had enough.
absl::Status BeginPart(const BenchContext& context, const std::string& what);

using BenchCaseMaker = std::unique_ptr<BenchCase>(const BenchContext& context);

}  // namespace oneflow
