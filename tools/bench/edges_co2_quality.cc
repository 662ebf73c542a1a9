#include "tools/bench/edges_co2_quality.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/local_training.h"
#include "compiler/lower/program_text.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "tools/bench/header_text.h"
#include "tools/bench/measurement.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWindow = 16, kVectorOfByte = 16, kBytes = 256;
constexpr int64_t kLayerWidths[] = {192, 128, kBytes};
constexpr int64_t kGroupsOfQuality = 4, kBatchOfGroup = 16, kQualityTau = 12;
constexpr int64_t kLongSteps = 5760, kShortSteps = 1920;
constexpr int kQualitySeeds = 3;
constexpr int64_t kPointSteps = 96;  // of a picture

// The loss of predicting the byte behind each window.
absl::StatusOr<Graph> NextByte(const OpRegistry& ops, const std::string& name, const std::string& path, int64_t batch) {
  const bool trains = name == "train";
  GraphBuilder b(ops, name);
  const TextBatch text = ReadText(b, batch, kWindow,
                                  {{"path", path},
                                   {"split", trains ? "train" : "validation"},
                                   {"validation_fraction", 0.1},
                                   {"vocabulary", kBytes}});
  const Tensor label = Reshape(Slice(text.labels.To({{"dp", Sbp::Split(0)}}), 1, kWindow - 1, 1), {batch});
  const Tensor table = b.Variable("embedding", {DType::kFloat32, {kBytes, kVectorOfByte}}, "normal(1)");
  Tensor x = Reshape(Embedding(table, text.tokens.To({{"dp", Sbp::Split(0)}})), {batch, kWindow * kVectorOfByte});
  for (size_t i = 0; i < std::size(kLayerWidths); ++i) {
    if (i > 0) x = Relu(x);
    const double deviation = std::sqrt(2.0 / static_cast<double>(x.shape()[1]));
    x = nn::Linear(x, absl::StrCat("layer", i), {.width = kLayerWidths[i], .init = nn::Normal(deviation)});
  }
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(x, label));
  if (trains) b.SetLoss(loss);
  b.Op("fetch", {loss}, {{"name", "loss"}});
  return b.Finish();
}

// A way to train, and how long.
struct QualityRun {
  std::string co2;  // its fields; empty: exact steps
  int64_t steps = kLongSteps;
};

class QualityMeter {
 public:
  QualityMeter(const BenchContext& context, std::string text) : context_(context), text_(std::move(text)) {}

  // The validation loss at the end, a mean over seeds. Adds the training losses of the first to `path`.
  absl::StatusOr<double> Loss(const QualityRun& run, PlotSeries& path) {
    double sum = 0;
    for (int seed = 1; seed <= kQualitySeeds; ++seed) {
      OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(path.name, ", seed ", seed)));
      OF_ASSIGN_OR_RETURN(const double loss, LossOf(run, seed, seed == 1 ? &path : nullptr));
      std::cerr << absl::StrFormat("%6.3f nats", loss);
      sum += loss / kQualitySeeds;
    }
    return sum;
  }

 private:
  absl::StatusOr<double> LossOf(const QualityRun& run, int seed, PlotSeries* path) {
    const int64_t batch = run.co2.empty() ? kGroupsOfQuality * kBatchOfGroup : kBatchOfGroup;
    const std::string graphs = absl::StrCat(context_.dir, "/graphs-", batch);
    fs::create_directories(graphs);
    for (const char* name : {"train", "evaluate"}) {
      OF_ASSIGN_OR_RETURN(const Graph graph,
                          NextByte(context_.ops, name, text_, name == std::string("train") ? batch : 128));
      std::ofstream(absl::StrCat(graphs, "/", name, ".graph")) << GraphToText(graph);
    }
    const std::string config = absl::StrCat(
        "name: 'edges-co2-quality' seed: ", seed, " model { graph: '", graphs, "' } mesh { dp: ", kGroupsOfQuality,
        " } train { steps: ", run.steps, " batch_size: ", kGroupsOfQuality * kBatchOfGroup,
        " optimizer { adamw { beta2: 0.98 weight_decay: 0 } } schedule { learning_rate: 6e-3 kind: 'cosine' ",
        "warmup_steps: 100 min_ratio: 0.0017 } } evaluate { batches: 32 } ",
        run.co2.empty() ? "" : absl::StrCat("sync { own_data: true co2 { tau: ", kQualityTau, " ", run.co2, " } }"));
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "(edges-co2)"));
    sourced.config.mutable_cluster()->set_cores_per_process(std::max(1, context_.cores));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, context_.ops));
    OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, context_.ops));
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(job.spec, context_.stop));
    if (path != nullptr) AddPath(program, events, *path);
    return MeanOfEvaluation(events);
  }

  // Means of kPointSteps losses.
  static void AddPath(const pb::Program& program, const std::vector<pb::JobEvent>& events, PlotSeries& path) {
    double megabytes = 0;  // of a rank in a step
    for (const pb::Plan& plan : program.plans()) {
      const double of_plan = static_cast<double>(PredictedBytesMoved(plan)) / kGroupsOfQuality / 1e6;
      if (plan.name() == "train") megabytes += of_plan;
      if (plan.name() == kOuterPlan) megabytes += of_plan / kQualityTau;
    }
    std::map<int64_t, double> losses;
    for (const pb::JobEvent& event : events) {
      const pb::FetchedValue& value = event.fetched();
      if (value.plan() == "train" && value.name() == "loss") losses[value.step()] = value.values(0);
    }
    double sum = 0;
    int64_t steps = 0;
    for (const auto& [step, loss] : losses) {
      sum += loss;
      if (++steps % kPointSteps != 0) continue;
      path.points.emplace_back(megabytes * static_cast<double>(steps), sum / kPointSteps);
      sum = 0;
    }
  }

  const BenchContext& context_;
  const std::string text_;
};

}  // namespace

absl::StatusOr<Co2Quality> MeasureCo2Quality(const BenchContext& context) {
  OF_ASSIGN_OR_RETURN(const std::string text, HeaderText());
  const std::string path = absl::StrCat(context.dir, "/headers");
  std::ofstream(path, std::ios::binary) << text;
  QualityMeter meter(context, path);
  const std::pair<const char*, QualityRun> runs[] = {
      {"exact", {""}},
      {"LocalSGD", {"delay: 0"}},
      {"CO2 without a penalty", {"momentum: 0.2 penalty: 'none'"}},
      {"CO2", {"momentum: 0.2"}},
      {"short, momentum 0.8, without a penalty", {"momentum: 0.8 penalty: 'none'", kShortSteps}},
      {"short, momentum 0.8, penalty and clip", {"momentum: 0.8 clip: 0.003", kShortSteps}},
  };
  Co2Quality quality;
  std::map<std::string, double> of;
  for (const auto& [name, run] : runs) {
    PlotSeries& path = quality.by_bytes.emplace_back(PlotSeries{name, {}});
    OF_ASSIGN_OR_RETURN(of[name], meter.Loss(run, path));
    quality.losses.emplace_back(name, of[name]);
  }
  quality.rows = {
      {"CO2 over LocalSGD", of["CO2"] - of["LocalSGD"], true, 0.04},
      {"CO2 over exact steps", of["CO2"] - of["exact"], true, 0.13},
      {"what the penalty is worth", of["CO2 without a penalty"] - of["CO2"], false, 0.05},
      {"momentum 0.8 without a penalty", of["short, momentum 0.8, without a penalty"], false, 3.0},
      {"momentum 0.8 with penalty and clip", of["short, momentum 0.8, penalty and clip"], true, 2.4},
  };
  return quality;
}

}  // namespace oneflow
