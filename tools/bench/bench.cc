#include "tools/bench/bench.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/ops/ops.h"
#include "tools/bench/against_pytorch.h"
#include "tools/bench/bench_case.h"
#include "tools/bench/boxing.h"
#include "tools/bench/checkpoint_cost.h"
#include "tools/bench/compilation.h"
#include "tools/bench/compile_scale.h"
#include "tools/bench/context.h"
#include "tools/bench/edges_co2.h"
#include "tools/bench/edges_lgreco.h"
#include "tools/bench/edges_masha.h"
#include "tools/bench/elementwise.h"
#include "tools/bench/gemm.h"
#include "tools/bench/graph_contest.h"
#include "tools/bench/links.h"
#include "tools/bench/loader_credits.h"
#include "tools/bench/measurement.h"
#include "tools/bench/offload.h"
#include "tools/bench/op_table.h"
#include "tools/bench/overlap.h"
#include "tools/bench/own_runs.h"
#include "tools/bench/predict.h"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/recomputation.h"
#include "tools/bench/report.h"
#include "tools/bench/run_job.h"
#include "tools/bench/runtime.h"
#include "tools/bench/simulate_scale.h"
#include "tools/bench/start_up.h"
#include "tools/bench/tiles.h"
#include "tools/bench/zero.h"
#include "tools/control/process/stop_signals.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/process/write_file.h"
#include "tools/job/job.h"
#include "tools/job/outputs.h"
#include "tools/study/calibration/sample_text.h"

namespace oneflow {
namespace {

constexpr size_t kSampleBytes = 1 << 20;
constexpr int kUsualWarmup = 5, kUsualSteps = 20;
// What makes it the quickstart's job (tools/examples/gpt_dp2_tp2.pbtxt); the layouts have meshes of their own and only
// train.
constexpr const char* kQuickstartJob[] = {
    "name=gpt-dp2-tp2",      "mesh={dp:2 tp:2}",
    "cluster={processes:2}", "data.text.validation_fraction=0.05",
    "train.steps=1000",      "train.schedule={learning_rate:2e-3 kind:'cosine' warmup_steps:100 min_ratio:0.1}",
    "evaluate={every:500}",  "generate={tokens:200 prompt:'In the beginning' temperature:0.8}",
};

// A layout that the model is measured in.
struct GptLayout {
  const char* name;
  const char* title;
  int pp, dp, tp;
  int processes;
  int micro_batches;
  bool traced = false;  // acts are recorded, and nothing is written
};
constexpr int64_t kTraceBytes = 8'000'000;  // as `run --trace` takes
constexpr GptLayout kLayouts[] = {
    {"one-device", "1 process, 1 device", 1, 1, 1, 1, 1},
    {"dp2-tp2", "dp2 x tp2, 2 processes x 2", 1, 2, 2, 2, 1},
    {"dp2-tp2-traced", "dp2 x tp2, 2 processes x 2, traced", 1, 2, 2, 2, 1, /*traced=*/true},
    {"pp2-dp2", "pp2 x dp2, 8 micro-batches", 2, 2, 1, 2, 8},
};

// What is compiled and not run.
enum class CompilationKind { kSelection, kJob };
constexpr struct {
  const char* name;
  CompilationKind kind;
} kCompilations[] = {{"select-sbp", CompilationKind::kSelection}, {"compile", CompilationKind::kJob}};
constexpr int64_t kSelectionLayers = 40;  // more than 5,000 nodes

// Cases of their own, one line each.
constexpr struct {
  const char* name;
  BenchCaseMaker* make;
} kOtherCases[] = {
    {"bert-layer", MakeBertLayerCase},
    {"boxing", MakeBoxingCase},
    {"checkpoint", MakeCheckpointCase},
    {"edges-co2", MakeEdgesCo2Case},
    {"edges-lgreco", MakeEdgesLgrecoCase},
    {"edges-masha", MakeEdgesMashaCase},
    {"elementwise", MakeElementwiseCase},
    {"gemm", MakeGemmCase},
    {"gpt2-124m", MakeGpt2Case},
    {"gpt2-124m-bf16", MakeGpt2Bf16Case},
    {"gpt2-1.5b-bf16", MakeGpt2LargeBf16Case},
    {"links", MakeLinksCase},
    {"llama-100m", MakeLlamaCase},
    {"llama-100m-bf16", MakeLlamaBf16Case},
    {"bert-base", MakeBertCase},
    {"resnet-50", MakeResNet50Case},
    {"resnet-50-bf16", MakeResNet50Bf16Case},
    {"vit-small", MakeVitSmallCase},
    {"loader-credits", MakeLoaderCreditsCase},
    {"overlap", MakeOverlapCase},
    {"own-runs", MakeOwnRunsCase},
    {"predict", MakePredictCase},
    {"predict-memory", MakePredictMemoryCase},
    {"predict-orders", MakePredictOrdersCase},
    {"predict-steps", MakePredictStepsCase},
    {"quickstart", MakeQuickstartCase},
    {"quickstart-bf16", MakeQuickstartBf16Case},
    {"recompute", MakeRecomputationCase},
    {"resnet-stages", MakeResNetStagesCase},
    {"resnet-stages-64", MakeLargeResNetStagesCase},
    {"runtime", MakeRuntimeCase},
    {"simulate-scale", MakeSimulateScaleCase},
    {"start-up", MakeStartUpCase},
    {"tiles", MakeTilesCase},
    {"zero", MakeZeroCase},
    {"offload", MakeOffloadCase},
    {"context", MakeContextCase},
};

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const GptLayout& layout : kLayouts) names.push_back(layout.name);
  for (const auto& compilation : kCompilations) names.push_back(compilation.name);
  for (const auto& other : kOtherCases) names.push_back(other.name);
  return names;
}

// A layout's job, compiled.
struct Contestant {
  const GptLayout* layout;
  Job job;
  pb::Program program;  // of all processes
};

struct OtherCase {
  const char* name;
  std::unique_ptr<BenchCase> bench_case;
};

class Bench {
 public:
  explicit Bench(const BenchArguments& arguments)
      : a_(arguments), ops_(StandardOps()), signals_([this](int) { stop_ = true; }) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status ChooseCases();
  absl::Status AddLayout(const GptLayout& layout);
  void AddCompilation(const char* name, CompilationKind kind);
  bool AddScaleCases(absl::string_view name);
  absl::StatusOr<Contestant> Compile(const GptLayout& layout);
  absl::Status RunRound(int round);
  absl::Status RunPyTorchRound(int round);
  absl::Status RunCompilations(int round);
  absl::Status RunScaleCases();
  absl::Status RunOtherCases();
  absl::Status Profile();
  BenchResult Describe() const;
  absl::Status WritePlots() const;

  int cores() const {
    return a_.cores > 0 ? a_.cores : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  int warmup() const { return a_.warmup.value_or(kUsualWarmup); }
  int steps() const { return a_.steps.value_or(kUsualSteps); }
  std::string weights() const { return dir_->path() + "/weights.safetensors"; }
  double tokens_per_step() const {
    return static_cast<double>(config_.config.train().batch_size()) * config_.config.model().gpt().context();
  }

  const BenchArguments a_;
  const OpRegistry ops_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<TempDir> dir_;
  SourcedConfig config_;  // only trains
  SourcedConfig job_;     // as asked for
  std::vector<Contestant> contestants_;
  bool with_pytorch_ = false;
  double load_average_ = 0;
  std::vector<CaseResult> cases_;  // contestants, then PyTorch
  std::vector<CompilationKind> compilation_kinds_;
  std::vector<CompilationResult> compilations_;  // by the same index
  std::vector<ScaleCase> scale_cases_;
  std::vector<ScaleResult> scales_;  // by the same index
  std::unique_ptr<BenchContext> context_;
  std::vector<OtherCase> other_cases_;
  StopSignals signals_;  // last: it calls us as soon as it exists
};

absl::Status Bench::AddLayout(const GptLayout& layout) {
  if (!config_.config.model().has_gpt()) {
    return absl::InvalidArgumentError(absl::StrCat(config_.Where("model"), ": bench measures gpt models"));
  }
  OF_ASSIGN_OR_RETURN_AT(Contestant contestant, Compile(layout), layout.name);
  contestants_.push_back(std::move(contestant));
  cases_.push_back({.name = layout.name, .title = layout.title});
  return absl::OkStatus();
}

void Bench::AddCompilation(const char* name, CompilationKind kind) {
  const std::string title = kind == CompilationKind::kSelection
                                ? absl::StrCat(name, ": GPT of ", kSelectionLayers, " layers, dp2 x tp2 x sp2")
                                : absl::StrCat(name, ": job '", job_.config.name(), "', config to plan");
  compilation_kinds_.push_back(kind);
  compilations_.push_back({.name = name, .title = title});
}

// Whether there are such: all, or the one of that name.
bool Bench::AddScaleCases(absl::string_view name) {
  const size_t before = scale_cases_.size();
  for (const ScaleCase& one : ScaleCases()) {
    if (name == "compile-scale" || name == one.name) scale_cases_.push_back(one);
  }
  return scale_cases_.size() > before;
}

absl::Status Bench::ChooseCases() {
  for (const absl::string_view name : absl::StrSplit(a_.cases, ',', absl::SkipWhitespace())) {
    const auto is_it = [&](const auto& known) { return name == known.name; };
    const auto layout = std::find_if(std::begin(kLayouts), std::end(kLayouts), is_it);
    const auto compilation = std::find_if(std::begin(kCompilations), std::end(kCompilations), is_it);
    const auto other = std::find_if(std::begin(kOtherCases), std::end(kOtherCases), is_it);
    if (layout != std::end(kLayouts)) {
      OF_RETURN_IF_ERROR(AddLayout(*layout));
    } else if (compilation != std::end(kCompilations)) {
      AddCompilation(compilation->name, compilation->kind);
    } else if (other != std::end(kOtherCases)) {
      other_cases_.push_back({other->name, other->make(*context_)});
    } else if (!AddScaleCases(name)) {
      return absl::InvalidArgumentError(absl::StrCat("--cases: there is no '", name, "'; there are ",
                                                     absl::StrJoin(CaseNames(), ", "),
                                                     ", compile-scale or one of its parts"));
    }
  }
  if (contestants_.empty() && compilations_.empty() && scale_cases_.empty() && other_cases_.empty())
    return absl::InvalidArgumentError("--cases: names none");
  return absl::OkStatus();
}

absl::Status Bench::Prepare() {
  if (a_.rounds < 1) return absl::InvalidArgumentError(absl::StrCat("--rounds ", a_.rounds, ": must be at least 1"));
  if (steps() < 1) return absl::InvalidArgumentError(absl::StrCat("--steps ", steps(), ": must be at least 1"));
  if (warmup() < 1) return absl::InvalidArgumentError(absl::StrCat("--warmup ", warmup(), ": must be at least 1"));
  if (a_.cores < 0) return absl::InvalidArgumentError(absl::StrCat("--cores ", a_.cores, ": must not be negative"));
  if (!a_.json.empty()) OF_RETURN_IF_ERROR_AT(CheckWritable(a_.json, /*may_be_stream=*/true), "--json");
  if (!a_.plots.empty() && !std::filesystem::is_directory(a_.plots))
    return absl::NotFoundError(absl::StrCat("--plots '", a_.plots, "': is no folder"));
  getloadavg(&load_average_, 1);
  OF_ASSIGN_OR_RETURN(dir_, TempDir::Make("oneflow-bench"));
  const std::string path = dir_->path() + "/sample.txt";
  std::ofstream(path, std::ios::binary) << SampleText(kSampleBytes);
  context_.reset(new BenchContext{ops_, stop_, a_.sets, warmup(), steps(), cores(), dir_->path(), path, a_.pytorch,
                                  a_.pytorch_script, a_.pytorch_modes, a_.warmup, a_.steps, a_.scheduler});
  if (a_.config.empty()) {
    OF_ASSIGN_OR_RETURN(config_, ParseConfig(TextOf(kQuickstartModel), "(bench)"));
    config_.config.mutable_data()->mutable_text()->set_path(path);
    job_ = config_;
    for (const char* assignment : kQuickstartJob) OF_RETURN_IF_ERROR(ApplyOverride(assignment, job_));
    for (const std::string& assignment : a_.sets) {
      OF_RETURN_IF_ERROR(ApplyOverride(assignment, config_));
      OF_RETURN_IF_ERROR(ApplyOverride(assignment, job_));
    }
  } else {
    OF_ASSIGN_OR_RETURN(config_, LoadConfig(a_.config, a_.sets));
    job_ = config_;
  }
  config_.config.clear_evaluate();
  config_.config.clear_generate();
  config_.config.clear_save_weights();
  config_.config.clear_save_gradients();
  config_.config.clear_save_initial_weights();
  config_.config.mutable_train()->set_steps(warmup() + steps());
  OF_RETURN_IF_ERROR(ChooseCases());
  with_pytorch_ = !a_.pytorch.empty() && !contestants_.empty();
  return absl::OkStatus();
}

absl::StatusOr<Contestant> Bench::Compile(const GptLayout& layout) {
  SourcedConfig config = config_;
  pb::Mesh& mesh = *config.config.mutable_mesh();
  mesh.set_pp(layout.pp);
  mesh.set_dp(layout.dp);
  mesh.set_tp(layout.tp);
  config.config.mutable_train()->set_micro_batches(layout.micro_batches);
  pb::Cluster& cluster = *config.config.mutable_cluster();
  cluster.set_processes(layout.processes);
  cluster.clear_devices_per_process();
  cluster.set_cores_per_process(std::max(1, cores() / layout.processes));
  Contestant contestant{.layout = &layout};
  OF_ASSIGN_OR_RETURN(contestant.job, MakeJob(std::move(config), JobKind::kTrain, ops_));
  OF_ASSIGN_OR_RETURN(contestant.program, CompileToProgram(contestant.job, ops_));
  if (layout.traced) contestant.job.spec.set_trace_bytes(kTraceBytes);
  // Saving comes first and is not measured.
  auto& phases = *contestant.job.spec.mutable_phases();
  phases.Clear();
  phases.Add()->mutable_save()->set_path(weights());
  AddMeasuredPhases(warmup(), steps(), contestant.job.spec);
  return contestant;
}

absl::Status Bench::RunRound(int round) {
  for (size_t i = 0; i < contestants_.size(); ++i) {
    std::cerr << absl::StrFormat("round %d of %d: %-12s", round + 1, a_.rounds, cases_[i].name) << std::flush;
    OF_ASSIGN_OR_RETURN_AT(Round result, RunJob(contestants_[i].job.spec, /*profile=*/false, stop_), cases_[i].name);
    std::cerr << absl::StrFormat("%9.0f tokens/s\n", tokens_per_step() / result.step_seconds);
    cases_[i].rounds.push_back(std::move(result));
  }
  if (with_pytorch_) OF_RETURN_IF_ERROR(RunPyTorchRound(round));
  return RunCompilations(round);
}

absl::Status Bench::RunPyTorchRound(int round) {
  std::cerr << absl::StrFormat("round %d of %d: %-12s", round + 1, a_.rounds, "pytorch") << std::flush;
  const pb::JobConfig& config = contestants_.front().job.config.config;
  const std::string batches = dir_->path() + "/pytorch.batches";
  OF_ASSIGN_OR_RETURN(const std::string tokens, TextBatches(config, warmup() + steps()));
  OF_RETURN_IF_ERROR(WriteFile("file", batches, tokens));
  const PyTorchCase pytorch{.python = a_.pytorch,
                            .script = a_.pytorch_script,
                            .dir = dir_->path(),
                            .model = PyTorchTextModel(config),
                            .config = config,
                            .weights = weights(),
                            .batches = batches,
                            .warmup = warmup(),
                            .steps = steps(),
                            .threads = cores()};
  absl::StatusOr<PyTorchRound> result = RunPyTorch(pytorch, cases_.front().rounds.back().learning_rates, stop_);
  if (absl::IsUnavailable(result.status()) || absl::IsUnimplemented(result.status())) {
    std::cerr << result.status().message() << ": no comparison\n";
    with_pytorch_ = false;
    return absl::OkStatus();
  }
  OF_RETURN_IF_ERROR(result.status());
  std::cerr << absl::StrFormat("%9.0f tokens/s\n", tokens_per_step() / result->round.step_seconds);
  if (cases_.size() == contestants_.size()) {
    cases_.push_back({.name = "pytorch", .title = result->title, .engine = false});
  }
  cases_.back().rounds.push_back(std::move(result->round));
  return absl::OkStatus();
}

absl::Status Bench::RunCompilations(int round) {
  for (size_t i = 0; i < compilations_.size(); ++i) {
    CompilationResult& result = compilations_[i];
    if (stop_) return absl::CancelledError("interrupted");
    std::cerr << absl::StrFormat("round %d of %d: %-12s", round + 1, a_.rounds, result.name) << std::flush;
    OF_ASSIGN_OR_RETURN_AT(const Compilation measured,
                           compilation_kinds_[i] == CompilationKind::kSelection
                               ? MeasureSelection(kSelectionLayers, ops_)
                               : MeasureCompile(job_, ops_),
                           result.name);
    std::cerr << absl::StrFormat("%9.3f s of cpu time\n", measured.round.cpu_seconds);
    result.work = measured.work;
    result.rounds.push_back(measured.round);
  }
  return absl::OkStatus();
}

absl::Status Bench::RunScaleCases() {
  scales_.resize(scale_cases_.size());
  for (int round = 0; round < a_.rounds; ++round) {
    for (size_t i = 0; i < scale_cases_.size(); ++i) {
      const ScaleCase& one = scale_cases_[i];
      if (stop_) return absl::CancelledError("interrupted");
      std::cerr << absl::StrFormat("round %d of %d: %-12s", round + 1, a_.rounds, one.name) << std::flush;
      OF_ASSIGN_OR_RETURN_AT(ScaleFigures figures, MeasureScale(one, ops_), one.name);
      std::cerr << absl::StrFormat("%9.3f s\n", figures.seconds());
      scales_[i].rounds.push_back(std::move(figures));
    }
  }
  return absl::OkStatus();
}

absl::Status Bench::RunOtherCases() {
  for (int round = 0; round < a_.rounds; ++round) {
    for (const OtherCase& other : other_cases_) {
      if (stop_) return absl::CancelledError("interrupted");
      std::cerr << absl::StrFormat("round %d of %d: %-12s", round + 1, a_.rounds, other.name) << std::flush;
      OF_ASSIGN_OR_RETURN_AT(const std::string figures, other.bench_case->RunRound(), other.name);
      std::cerr << figures << "\n";
    }
  }
  return absl::OkStatus();
}

absl::Status Bench::Profile() {
  for (size_t i = 0; i < contestants_.size(); ++i) {
    std::cerr << "profile: " << cases_[i].name << "\n";
    OF_ASSIGN_OR_RETURN_AT(const Round round, RunJob(contestants_[i].job.spec, /*profile=*/true, stop_),
                           cases_[i].name);
    cases_[i].ops = OpTable(round.counters, WorkOfPlan(contestants_[i].program.plans(0), ops_));
    cases_[i].profiled_run_seconds = round.counters.run_seconds;
    cases_[i].profiled_kernel_seconds = round.counters.kernel_seconds;
  }
  return absl::OkStatus();
}

BenchResult Bench::Describe() const {
  std::vector<std::pair<std::string, const BenchCase*>> others;
  for (const OtherCase& other : other_cases_) others.push_back({other.name, other.bench_case.get()});
  const pb::Gpt& gpt = config_.config.model().gpt();
  return {.model = contestants_.empty() ? ""
                                        : absl::StrCat("GPT of ", gpt.layers(), " layers, width ", gpt.width(), ", ",
                                                       gpt.heads(), " heads, context ", gpt.context(), ", batch ",
                                                       config_.config.train().batch_size()),
          .tokens_per_step = tokens_per_step(),
          .cores = cores(),
          .warmup = warmup(),
          .steps = steps(),
          .load_average = load_average_,
          .cases = cases_,
          .compilations = compilations_,
          .scales = scales_,
          .others = others};
}

absl::Status Bench::Run() {
  OF_RETURN_IF_ERROR(Prepare());
  for (int round = 0; round < a_.rounds; ++round) OF_RETURN_IF_ERROR(RunRound(round));
  OF_RETURN_IF_ERROR(Profile());
  OF_RETURN_IF_ERROR(RunScaleCases());
  OF_RETURN_IF_ERROR(RunOtherCases());
  const BenchResult result = Describe();
  std::cout << ReportText(result) << std::flush;
  if (!a_.json.empty()) OF_RETURN_IF_ERROR(WriteFile("--json", a_.json, absl::StrCat(ReportJson(result), "\n")));
  return a_.plots.empty() ? absl::OkStatus() : WritePlots();
}

// FOLDER/CASE-PLOT.svg of each.
absl::Status Bench::WritePlots() const {
  bool any = false;
  for (const OtherCase& other : other_cases_) {
    for (const Plot& plot : other.bench_case->Plots()) {
      const std::string path = absl::StrCat(a_.plots, "/", other.name, "-", plot.name, ".svg");
      OF_RETURN_IF_ERROR(WriteFile("--plots", path, PlotSvg(plot)));
      std::cout << "wrote " << path << "\n";
      any = true;
    }
  }
  if (!any) std::cout << "--plots: none of these cases has pictures\n";
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchCommand(const BenchArguments& arguments) { return Bench(arguments).Run(); }

}  // namespace oneflow
