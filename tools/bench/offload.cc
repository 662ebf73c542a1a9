#include "tools/bench/offload.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "actor/tier_file.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "tools/bench/run_job.h"
#include "tools/study/calibration/disk_tier.h"

namespace oneflow {
namespace {

// A warm-up of one step and three measured ones, unless the command line says otherwise.
constexpr int kOffloadWarmup = 1, kOffloadSteps = 3;
// Without clipping, so that updates need not wait for the norm of all gradients.
constexpr char kOffloadedJob[] = R"(
name: "offload"
model { gpt { layers: 12 width: 768 heads: 12 context: 256 vocabulary: 50257 tied_embedding: true } }
data { text { path: "" } }
train {
  steps: 2
  batch_size: 4
  optimizer { adamw { weight_decay: 0.1 } }
  schedule { learning_rate: 3e-4 }
}
)";
constexpr char kOptimizerField[] = "{what: OPTIMIZER tier: DISK}", kWeightsField[] = "{what: WEIGHTS tier: DISK}",
               kActivationsField[] = "{what: ACTIVATIONS tier: DISK}";

struct OffloadWay {
  const char* name;
  std::vector<std::string> fields;
};
const std::vector<OffloadWay>& OffloadWays() {
  static const auto* const ways =
      new std::vector<OffloadWay>{{"in memory", {}},
                                  {"optimizer", {kOptimizerField}},
                                  {"and weights", {kOptimizerField, kWeightsField}},
                                  {"and activations", {kOptimizerField, kWeightsField, kActivationsField}}};
  return *ways;
}

struct OffloadRun {
  double seconds = 0, peak_bytes = 0;
  double device_bytes = 0, disk_bytes = 0, host_bytes = 0;  // of the plan
  double moved_bytes = 0;                                   // per step, from disk and to it
};
struct OffloadRound {
  double bytes_per_s = 0;  // of the disk, both ways together
  std::vector<OffloadRun> runs;

  double Floor(size_t way) const { return std::max(runs[0].seconds, runs[way].moved_bytes / bytes_per_s); }
};

int64_t MovedBytesOf(const pb::Operand& operand) {
  int64_t bytes = static_cast<int64_t>(SizeOf(static_cast<DType>(operand.dtype())));
  for (const int64_t dim : operand.dims()) bytes *= dim;
  return bytes;
}

class OffloadCase : public BenchCase {
 public:
  explicit OffloadCase(const BenchContext& context) : context_(context), context_of_jobs_(context) {
    context_of_jobs_.warmup = context.asked_warmup.value_or(kOffloadWarmup);
    context_of_jobs_.steps = context.asked_steps.value_or(kOffloadSteps);
  }

  absl::StatusOr<std::string> RunRound() override {
    OffloadRound round;
    OF_ASSIGN_OR_RETURN(round.bytes_per_s, DiskTierBytesPerS(TierFile::UsualFolder()));
    std::vector<double> losses;
    for (const OffloadWay& way : OffloadWays()) {
      OF_RETURN_IF_ERROR(BeginPart(context_, way.name));
      OF_ASSIGN_OR_RETURN(SourcedConfig config, OwnConfig(kOffloadedJob, "(offload)", 1, context_of_jobs_));
      if (!way.fields.empty()) {
        OF_RETURN_IF_ERROR(ApplyOverride(absl::StrCat("offload=[", absl::StrJoin(way.fields, ", "), "]"), config));
      }
      OffloadRun& run = round.runs.emplace_back();
      OF_RETURN_IF_ERROR(TakePlan(config, run));
      OF_ASSIGN_OR_RETURN(const Round measured, RunConfig(config, context_of_jobs_));
      if (losses.empty()) losses = measured.losses;
      if (measured.losses != losses) {
        return absl::InternalError(absl::StrCat("offload: '", way.name, "': the losses are not those in memory"));
      }
      run.seconds = measured.step_seconds;
      run.peak_bytes = measured.counters.peak_bytes;
    }
    rounds_.push_back(std::move(round));
    return absl::StrFormat("%5.2f of the floor", Share(rounds_.back(), 1));
  }

  std::string Text() const override {
    std::string text = absl::StrFormat("offload: GPT-2 124M on one device, on a disk of %.2f GB/s; same losses\n",
                                       rounds_.back().bytes_per_s / 1e9);
    text += "                   step s  of memory  floor / step  device MB  on disk MB  peak MB  of plan  moved MB\n";
    for (size_t w = 0; w < OffloadWays().size(); ++w) {
      const OffloadRun& last = rounds_.back().runs[w];
      const auto median = [&](const auto& of) { return SummaryOf(rounds_, of).median; };
      absl::StrAppendFormat(&text, "  %-16s %7.3f %10.2f %13.2f %10.1f %11.1f %8.1f %8.2f %9.1f\n",
                            OffloadWays()[w].name, median([&](const OffloadRound& r) { return r.runs[w].seconds; }),
                            median([&](const OffloadRound& r) { return r.runs[w].seconds / r.runs[0].seconds; }),
                            median([&](const OffloadRound& r) { return Share(r, w); }), last.device_bytes / 1e6,
                            last.disk_bytes / 1e6, last.peak_bytes / 1e6,
                            last.peak_bytes / (last.device_bytes + last.host_bytes), last.moved_bytes / 1e6);
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const OffloadRound& round : rounds_) {
      nlohmann::json& of = json.emplace_back();
      of["disk_bytes_per_s"] = round.bytes_per_s;
      for (size_t w = 0; w < round.runs.size(); ++w) {
        const OffloadRun& run = round.runs[w];
        of["ways"][OffloadWays()[w].name] = {{"step_seconds", run.seconds},   {"floor_seconds", round.Floor(w)},
                                             {"peak_bytes", run.peak_bytes},  {"device_bytes", run.device_bytes},
                                             {"disk_bytes", run.disk_bytes},  {"host_bytes", run.host_bytes},
                                             {"moved_bytes", run.moved_bytes}};
      }
    }
    return json;
  }

 private:
  static double Share(const OffloadRound& round, size_t way) { return round.Floor(way) / round.runs[way].seconds; }

  absl::Status TakePlan(const SourcedConfig& config, OffloadRun& run) const {
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, context_.ops));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, context_.ops));
    run.device_bytes = static_cast<double>(BytesOfZones(plan.classes(0)));
    run.disk_bytes = static_cast<double>(BytesOfZone(plan.classes(0), kDiskZone));
    run.host_bytes = static_cast<double>(plan.classes(0).host_bytes());
    OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, context_.ops));
    for (const pb::Actor& actor : program.plans(0).actors()) {
      for (const pb::Instruction& instruction : actor.instructions()) {
        if (instruction.kind() != pb::Instruction::MOVE) continue;
        const int64_t bytes = MovedBytesOf(instruction.inputs(instruction.inputs_size() - 1));
        run.moved_bytes += static_cast<double>(bytes) * actor.acts_per_step();
      }
    }
    return absl::OkStatus();
  }

  const BenchContext& context_;
  BenchContext context_of_jobs_;  // with steps of its own
  std::vector<OffloadRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeOffloadCase(const BenchContext& context) {
  return std::make_unique<OffloadCase>(context);
}

}  // namespace oneflow
