// `oneflow bench`: measures the engine on a GPT, beside PyTorch where a Python with it is named, and the compiler.
//
//   round 1:  one-device   dp2-tp2   pp2-dp2   pytorch   select-sbp   compile
//   round 2:  one-device   dp2-tp2   pp2-dp2   pytorch   select-sbp   compile   interleaved, so that what else
//   ...                                                                        the machine does disturbs all alike
//   profile:  one-device   dp2-tp2   pp2-dp2                   once more, every op timed
//
// The cases before the last two train the same model from the same weights on the same batches; the losses beside the
// figures show it. The last two run nothing (tools/bench/compilation.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "tools/control/client.h"

namespace oneflow {

struct BenchArguments {
  std::string config;             // job config with a gpt model; empty: the quickstart's job on a generated text
  std::vector<std::string> sets;  // overrides of it, "train.batch_size=8"
  int rounds = 3;
  std::optional<int> steps;   // measured in a round; default 20, or less where they take seconds
  int cores = 0;              // for each case, divided among its processes; 0: all of this machine
  std::optional<int> warmup;  // steps before them; default 5, or less
  std::string cases = "one-device,dp2-tp2,pp2-dp2,select-sbp,compile";
  std::string pytorch;  // Python interpreter; empty: no comparison
  std::string pytorch_script = "tools/bench/pytorch_peer.py";
  std::string pytorch_modes;        // of a case's modes of PyTorch, separated by commas; empty: all
  std::string json;                 // file for all figures; empty: none
  std::string plots;                // folder for pictures of what cases measured; empty: none
  SchedulerAddress scheduler = "";  // of the cluster that cases of several hosts run on; empty: one of this machine
};

// Prints the report to stdout, and what it is doing to stderr. InvalidArgument for layouts of a config without gpt, an
// unknown case, too few steps; the first error of a case otherwise. Cancelled if the user pressed Ctrl-C.
absl::Status BenchCommand(const BenchArguments& arguments);

}  // namespace oneflow
