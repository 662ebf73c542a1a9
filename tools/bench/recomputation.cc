#include "tools/bench/recomputation.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/run_job.h"

namespace oneflow {
namespace {

constexpr int kRecomputedProcesses = 2;
constexpr char kRecomputedJob[] = R"(
name: "recomputation"
model { gpt { layers: 4 width: 128 heads: 4 context: 128 } }
data { text { path: "" } }
mesh { dp: 2 tp: 2 }
cluster { processes: 2 }
train {
  steps: 2
  batch_size: 32
  optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 }
  schedule { learning_rate: 1e-3 }
}
)";

struct RecomputationRound {
  Round kept, again;
  // Of everything that ranks hold.
  double memory() const { return again.counters.register_bytes / kept.counters.register_bytes; }
  double cpu() const { return again.counters.cpu_seconds / kept.counters.cpu_seconds; }
  double step() const { return again.step_seconds / kept.step_seconds; }
};

class RecomputationCase : public BenchCase {
 public:
  explicit RecomputationCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    OF_ASSIGN_OR_RETURN(SourcedConfig config,
                        OwnConfig(kRecomputedJob, "(recomputation)", kRecomputedProcesses, context_));
    RecomputationRound round;
    OF_ASSIGN_OR_RETURN(round.kept, RunConfig(config, context_));
    config.config.mutable_recompute()->set_what("layers");
    OF_ASSIGN_OR_RETURN(round.again, RunConfig(config, context_));
    if (round.again.losses != round.kept.losses) {
      return absl::InternalError("recomputation: the losses are not those of a run without it");
    }
    rounds_.push_back(std::move(round));
    return absl::StrFormat("%9.2f x cpu", rounds_.back().cpu());
  }

  std::string Text() const override {
    const RecomputationRound& last = rounds_.back();
    const Summary cpu = SummaryOf(rounds_, &RecomputationRound::cpu),
                  step = SummaryOf(rounds_, &RecomputationRound::step);
    return "recompute: dp2 x tp2, layers computed again for backward, beside what keeps them; same losses\n" +
           absl::StrFormat("  memory of all ranks %8.1f MB instead of %8.1f MB: %.2f x\n",
                           last.again.counters.register_bytes / 1e6, last.kept.counters.register_bytes / 1e6,
                           last.memory()) +
           absl::StrFormat("  cpu time of a step %5.2f x (%.2f..%.2f), step %5.2f x (%.2f..%.2f)\n", cpu.median,
                           cpu.least, cpu.most, step.median, step.least, step.most);
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const RecomputationRound& round : rounds_) {
      json.push_back({{"register_bytes_kept", round.kept.counters.register_bytes},
                      {"register_bytes_recomputed", round.again.counters.register_bytes},
                      {"cpu_seconds_kept", round.kept.counters.cpu_seconds},
                      {"cpu_seconds_recomputed", round.again.counters.cpu_seconds},
                      {"step_seconds_kept", round.kept.step_seconds},
                      {"step_seconds_recomputed", round.again.step_seconds}});
    }
    return json;
  }

 private:
  const BenchContext& context_;
  std::vector<RecomputationRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeRecomputationCase(const BenchContext& context) {
  return std::make_unique<RecomputationCase>(context);
}

}  // namespace oneflow
