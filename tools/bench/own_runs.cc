#include "tools/bench/own_runs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "actor/trace/chrome_trace.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/zones.h"
#include "tools/bench/measurement.h"
#include "tools/bench/run_job.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"
#include "tools/study/calibration/kernels.h"
#include "tools/study/sim/kernel_costs.h"
#include "tools/study/sim/predicted_costs.h"
#include "tools/study/sim/simulated_job.h"
#include "tools/study/trace/compare.h"

namespace oneflow {
namespace {

constexpr int64_t kSimulatedSteps = 33;
constexpr struct {
  const char* name;
  const char* config;
} kModels[] = {
    {"gpt", R"(
name: "gpt"
model { gpt { layers: 2 width: 128 heads: 4 context: 128 } }
train { batch_size: 16 optimizer { adamw { weight_decay: 0.1 } } schedule { learning_rate: 1e-3 } }
)"},
    {"convnet", R"(
name: "convnet"
model { convnet { channels: [16, 32] hidden: 128 classes: 10 } }
data {
  images {
    train_images: "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
    train_labels: "/usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz"
    test_images: "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz"
    test_labels: "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz"
  }
}
train { batch_size: 100 optimizer { adamw { beta2: 0.999 } } schedule { learning_rate: 1e-3 } }
)"},
    {"wide-deep", R"(
name: "wide-deep"
model { wide_deep { embedding: 16 widths: [128, 64] table_split: "rows" } }
data { clicks { fields: 8 vocabulary: 200000 numbers: 4 } }
train { batch_size: 256 optimizer { adamw { beta2: 0.99 } } schedule { learning_rate: 1e-3 } }
)"},
};
constexpr struct {
  const char* name;
  const char* sets;  // assignments to fields of the job
  int devices;
  bool of_gpt_alone = false;
} kRunLayouts[] = {
    {"one device", "", 1},
    {"dp2", "mesh={dp:2}", 2},
    {"tp2", "mesh={tp:2}", 2},
    {"pp2", "mesh={pp:2} train.micro_batches=4", 2},
    {"dp4", "mesh={dp:4}", 4},
    {"dp2 x tp2", "mesh={dp:2,tp:2}", 4},
    {"pp2 x dp2", "mesh={pp:2,dp:2} train.micro_batches=4", 4},
    {"tp4", "mesh={tp:4}", 4},
    {"dp2, stage 1", "mesh={dp:2} zero={stage:1}", 2, /*of_gpt_alone=*/true},
    {"dp2, stage 2", "mesh={dp:2} zero={stage:2}", 2, /*of_gpt_alone=*/true},
    {"dp2, stage 3", "mesh={dp:2} zero={stage:3}", 2, /*of_gpt_alone=*/true},
    {"cp2", "mesh={cp:2}", 2, /*of_gpt_alone=*/true},
    {"states on disk", "offload=[{what:OPTIMIZER,tier:DISK}]", 1, /*of_gpt_alone=*/true},
    {"weights on disk too", "offload=[{what:OPTIMIZER,tier:DISK},{what:WEIGHTS,tier:DISK}]", 1, /*of_gpt_alone=*/true},
};

struct OwnRound {
  double real_seconds = 0, predicted_seconds = 0;  // medians of a step
  bool same_bottleneck = false;
  double held_bytes = 0, planned_bytes = 0;  // for registers and variables

  double ratio() const { return predicted_seconds / real_seconds; }
};

struct OwnRow {
  std::string title;
  int devices = 1;
  Job job;
  pb::Program program;
  std::vector<OwnRound> rounds;

  double median_ratio() const {
    return SummaryOf(rounds, [](const OwnRound& x) { return x.ratio(); }).median;
  }
  int SameBottlenecks() const {
    return static_cast<int>(
        std::count_if(rounds.begin(), rounds.end(), [](const auto& x) { return x.same_bottleneck; }));
  }
  bool memory_exact() const {
    return std::all_of(rounds.begin(), rounds.end(), [](const auto& x) { return x.held_bytes == x.planned_bytes; });
  }
};

double PlannedBytes(const pb::Program& program) {
  double bytes = 0;
  for (const pb::Rank& rank : program.ranks()) bytes += static_cast<double>(BytesOfZones(rank));
  return bytes;
}

// As the workers count it at the end.
double HeldBytes(const std::vector<pb::JobEvent>& events, const pb::JobSpec& spec) {
  double bytes = 0;
  for (const pb::JobEvent& event : events) {
    if (!event.has_stats() || event.stats().part() != spec.phases_size() - 1) continue;
    bytes += static_cast<double>(event.stats().stats().register_bytes());
  }
  return bytes;
}

class OwnRunsCase : public BenchCase {
 public:
  explicit OwnRunsCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    if (rows_.empty()) OF_RETURN_IF_ERROR(MakeRows());
    for (OwnRow& row : rows_) {
      if (context_.stop) return absl::CancelledError("interrupted");
      OF_ASSIGN_OR_RETURN_AT(const OwnRound round, Measure(row), row.title);
      row.rounds.push_back(round);
    }
    const auto last = [](const OwnRow& row) { return row.rounds.back().ratio(); };
    return absl::StrFormat("%9.1f %% off in the median", 100 * MedianError(/*sharing=*/false, last));
  }

  std::string Text() const override {
    std::string text = absl::StrFormat("%-22s %10s %12s %7s %15s %11s %14s %14s\n", "own-runs", "real ms",
                                       "predicted ms", "ratio", "(least..most)", "bottleneck", "MB planned", "held");
    for (const OwnRow& row : rows_) {
      if (!SharesCores(row)) absl::StrAppend(&text, RowText(row));
    }
    absl::StrAppend(&text, SumText(/*sharing=*/false));
    if (std::none_of(rows_.begin(), rows_.end(), [&](const OwnRow& row) { return SharesCores(row); })) return text;
    absl::StrAppendFormat(&text,
                          "More devices than the %d cores: kernels are measured while all of them compute, and take as "
                          "long as cores that all of\nthem share let them. In a run some wait meanwhile and leave "
                          "their share to others, which the virtual clock does not know\n",
                          context_.cores);
    for (const OwnRow& row : rows_) {
      if (SharesCores(row)) absl::StrAppend(&text, RowText(row));
    }
    return absl::StrCat(text, SumText(/*sharing=*/true));
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const OwnRow& row : rows_) {
      nlohmann::json& item = json.emplace_back(
          nlohmann::json{{"name", row.title}, {"devices", row.devices}, {"shares_cores", SharesCores(row)}});
      for (const OwnRound& round : row.rounds) {
        item["rounds"].push_back({{"real_seconds", round.real_seconds},
                                  {"predicted_seconds", round.predicted_seconds},
                                  {"same_bottleneck", round.same_bottleneck},
                                  {"held_bytes", round.held_bytes},
                                  {"planned_bytes", round.planned_bytes}});
      }
    }
    return json;
  }

 private:
  // Whether it has more devices than there are cores.
  bool SharesCores(const OwnRow& row) const { return row.devices > context_.cores; }

  // Of the rows that share cores, or of the others.
  double MedianError(bool sharing, const std::function<double(const OwnRow&)>& ratio) const {
    std::vector<double> errors;
    for (const OwnRow& row : rows_) {
      if (SharesCores(row) == sharing) errors.push_back(std::abs(ratio(row) - 1));
    }
    return Median(std::move(errors));
  }

  static std::string RowText(const OwnRow& row) {
    const Summary ratio = SummaryOf(row.rounds, [](const OwnRound& x) { return x.ratio(); });
    return absl::StrFormat("%-22s %10.3f %12.3f %7.3f %15s %11s %14.6f %14s\n", row.title,
                           1e3 * SummaryOf(row.rounds, [](const OwnRound& x) { return x.real_seconds; }).median,
                           1e3 * SummaryOf(row.rounds, [](const OwnRound& x) { return x.predicted_seconds; }).median,
                           ratio.median, absl::StrFormat("(%.3f..%.3f)", ratio.least, ratio.most),
                           absl::StrFormat("%d of %d", row.SameBottlenecks(), row.rounds.size()),
                           1e-6 * row.rounds.back().planned_bytes, row.memory_exact() ? "the same" : "other");
  }

  std::string SumText(bool sharing) const {
    int same = 0, rounds = 0, exact = 0, rows = 0;
    for (const OwnRow& row : rows_) {
      if (SharesCores(row) != sharing) continue;
      same += row.SameBottlenecks();
      rounds += static_cast<int>(row.rounds.size());
      exact += row.memory_exact();
      ++rows;
    }
    const double error = MedianError(sharing, [](const OwnRow& row) { return row.median_ratio(); });
    return absl::StrFormat("off by %.1f%% in the median; the same bottleneck in %d of %d; memory exact in %d of %d\n",
                           100 * error, same, rounds, exact, rows);
  }

  absl::Status MakeRows() {
    for (const auto& model : kModels) {
      for (const auto& layout : kRunLayouts) {
        OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(model.config, absl::StrCat("(", model.name, ")")));
        pb::JobConfig& job = config.config;
        if (layout.of_gpt_alone && !job.model().has_gpt()) continue;
        if (job.model().has_gpt()) job.mutable_data()->mutable_text()->set_path(context_.sample_text);
        job.mutable_cluster()->set_cores_per_process(std::min(layout.devices, context_.cores));
        for (const absl::string_view set : absl::StrSplit(layout.sets, ' ', absl::SkipEmpty())) {
          OF_RETURN_IF_ERROR(ApplyOverride(set, config));
        }
        job.mutable_train()->set_steps(context_.warmup + context_.steps);
        job.mutable_trace()->set_file(TraceFile());
        for (const std::string& assignment : context_.sets) OF_RETURN_IF_ERROR(ApplyOverride(assignment, config));
        OwnRow& row = rows_.emplace_back();
        row.title = absl::StrCat(model.name, " ", layout.name);
        row.devices = layout.devices;
        OF_ASSIGN_OR_RETURN_AT(row.job, MakeJob(std::move(config), JobKind::kTrain, context_.ops), row.title);
        OF_ASSIGN_OR_RETURN_AT(row.program, CompileToProgram(row.job, context_.ops), row.title);
      }
    }
    return absl::OkStatus();
  }

  std::string TraceFile() const { return context_.dir + "/own-runs.json"; }

  // The machine's speed may change meanwhile, so kernels are measured before the run and behind it.
  absl::StatusOr<OwnRound> Measure(const OwnRow& row) const {
    OwnRound round;
    OF_ASSIGN_OR_RETURN(const Trace before, SimulatedTrace(row));
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(row.job.spec, context_.stop));
    round.held_bytes = HeldBytes(events, row.job.spec);
    round.planned_bytes = PlannedBytes(row.program);
    OF_ASSIGN_OR_RETURN(const Trace real, ReadChromeTrace(TraceFile()));
    OF_ASSIGN_OR_RETURN(const TraceSummary real_summary, Summarize(real, "train"));
    OF_ASSIGN_OR_RETURN(const Trace behind, SimulatedTrace(row));
    round.same_bottleneck = true;
    for (const Trace* const simulated : {&before, &behind}) {
      OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(*simulated, "train"));
      OF_ASSIGN_OR_RETURN(const TraceComparison comparison, CompareTraces(real, real_summary, *simulated, summary));
      round.real_seconds = comparison.step_seconds[0];
      round.predicted_seconds += comparison.step_seconds[1] / 2;
      round.same_bottleneck = round.same_bottleneck && comparison.same_bottleneck();
    }
    std::cerr << absl::StrFormat("\n  %-22s real %9.3f ms, predicted %9.3f ms", row.title, 1e3 * round.real_seconds,
                                 1e3 * round.predicted_seconds);
    return round;
  }

  // By kernels that are measured now.
  absl::StatusOr<Trace> SimulatedTrace(const OwnRow& row) const {
    OF_ASSIGN_OR_RETURN(const int plan, FindPlan(row.program, "train"));
    OF_ASSIGN_OR_RETURN(const pb::KernelCosts kernels, MeasureKernels(row.job, row.program, plan, context_.steps,
                                                                      context_.dir, context_.ops, context_.stop));
    OF_ASSIGN_OR_RETURN(const Topology topology, TopologyOf(row.job.options));
    const PredictedCosts predicted(row.program, plan, topology, context_.ops);
    OF_ASSIGN_OR_RETURN(const KernelCosts costs,
                        KernelCosts::Of(kernels, row.program, plan, topology, predicted,
                                        {.emulated_ns_per_byte = row.job.spec.emulated_ms_per_mb()}));
    OF_ASSIGN_OR_RETURN(Simulation simulation, Simulate(row.program, plan, kSimulatedSteps, costs.Costs()));
    return std::move(simulation.trace);
  }

  const BenchContext& context_;
  std::vector<OwnRow> rows_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeOwnRunsCase(const BenchContext& context) {
  return std::make_unique<OwnRunsCase>(context);
}

}  // namespace oneflow
