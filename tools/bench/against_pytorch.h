// Cases in which the engine and PyTorch train one model (contest.h). A round runs the engine on one device, then its
// other layouts, then PyTorch in each of its modes, every one in processes of its own; what runs first is weights, that
// all of them begin with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/bench/bench_case.h"
#include "tools/job/job.h"

namespace oneflow {

// A mesh, its processes, and micro-batches of a step.
struct TrainingLayout {
  const char* name;
  const char* title;
  int pp = 1, dp = 1, tp = 1;
  int processes = 1;
  int micro_batches = 1;
};

struct TrainedModel {
  std::string title;  // "gpt2-124m: GPT of 12 layers..."
  std::string unit;   // of what a step consumes
  double per_step = 0;
  nlohmann::json pytorch;                                 // PyTorchCase::model
  std::vector<std::string> modes = {"eager", "compile"};  // PyTorchCase::mode
  int warmup = 0, steps = 0;
  std::vector<TrainingLayout> layouts;  // beside one device
  // The job of a layout, of warmup + steps steps.
  std::function<absl::StatusOr<Job>(const TrainingLayout& layout)> make_job;
  // What PyTorch's model reads in so many steps, as bytes.
  std::function<absl::StatusOr<std::string>(const Job& job, int steps)> batches;
};

// A round fails as CompileJob, RunJob and RunPyTorch do; what PyTorch lacks is told in the report and no error.
std::unique_ptr<BenchCase> MakeContestCase(const BenchContext& context,
                                           std::function<absl::StatusOr<TrainedModel>()> make_model);

BenchCaseMaker MakeGpt2Case, MakeGpt2Bf16Case, MakeLlamaCase, MakeLlamaBf16Case, MakeBertCase, MakeGpt2LargeBf16Case,
    MakeQuickstartCase, MakeQuickstartBf16Case;

}  // namespace oneflow
