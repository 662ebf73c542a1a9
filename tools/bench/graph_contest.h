// A contest (against_pytorch.h) over a model that is declared as a graph, in f32, in bf16 or in both. It reads random
// images from a file, the same in every run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/models/data.h"
#include "tools/bench/bench_case.h"

namespace oneflow {

// Images of one channel, as files have them: a model that wants more has them one below the other.
struct ImageSizes {
  int64_t batch = 1, height = 1, width = 1;
};

struct GraphContest {
  std::string name;   // of the case
  std::string title;  // "bert-layer: encoder layer of BERT-base..."
  std::string unit;   // of what a step consumes
  double per_step = 0;
  nlohmann::json pytorch;          // PyTorchCase::model; it reads images f32[batch,height,width] and labels i32[batch]
  std::string training;            // the fields optimizer and schedule of a job's train
  ImageSizes images;               // pixels are in [-1, 1], labels below 256
  int warmup = 1, steps = 1;       // where the command line says nothing
  std::vector<std::string> modes;  // of PyTorch
  std::function<Tensor(const Batch& batch)> loss;
};

// Errors as of MakeContestCase, and of the graph.
std::unique_ptr<BenchCase> MakeGraphContest(const GraphContest& contest, bool bf16, const BenchContext& context);
// In f32 and then in bf16.
std::unique_ptr<BenchCase> MakeGraphContest(const GraphContest& contest, const BenchContext& context);

BenchCaseMaker MakeBertLayerCase, MakeResNetStagesCase, MakeLargeResNetStagesCase, MakeResNet50Case,
    MakeResNet50Bf16Case, MakeVitSmallCase;

}  // namespace oneflow
