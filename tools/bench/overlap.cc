#include "tools/bench/overlap.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/run_job.h"

namespace oneflow {
namespace {

constexpr int kRanks = 2;
constexpr double kMsPerMb = 1;
constexpr char kConfig[] = R"(
name: "overlap"
model { gpt { layers: 4 width: 384 heads: 6 context: 128 } }
data { text { path: "" } }
mesh { dp: 2 }
cluster { processes: 2 }
train {
  steps: 2
  batch_size: 8
  optimizer { adamw { weight_decay: 0.1 } }
  schedule { learning_rate: 1e-3 }
}
)";

struct OverlapRound {
  Round without, with;  // the link

  // Of a rank and step: time on the link; of that, how much longer what computes sleeps than without it.
  double link_seconds() const {
    return (with.counters.communication_seconds - without.counters.communication_seconds) / kRanks;
  }
  double exposed_seconds() const { return (with.counters.idle_seconds - without.counters.idle_seconds) / kRanks; }
  double hidden() const { return 1 - exposed_seconds() / link_seconds(); }
};

class OverlapCase : public BenchCase {
 public:
  explicit OverlapCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    OF_ASSIGN_OR_RETURN(SourcedConfig config, OwnConfig(kConfig, "(overlap)", kRanks, context_));
    OverlapRound round;
    OF_ASSIGN_OR_RETURN(round.without, RunConfig(config, context_));
    config.config.mutable_cluster()->set_emulated_ms_per_mb(kMsPerMb);
    OF_ASSIGN_OR_RETURN(round.with, RunConfig(config, context_));
    rounds_.push_back(std::move(round));
    return absl::StrFormat("%9.0f %% hidden", 100 * rounds_.back().hidden());
  }

  std::string Text() const override {
    std::vector<double> without, with;
    for (const OverlapRound& round : rounds_) {
      without.push_back(1e3 * round.without.step_seconds);
      with.push_back(1e3 * round.with.step_seconds);
    }
    const Summary hidden = SummaryOf(rounds_, &OverlapRound::hidden, 100);
    return absl::StrFormat("overlap: dp2 on two processes, a link of %g ms per MB beside none\n", kMsPerMb) +
           absl::StrFormat("  step without link %8.1f ms, with it %8.1f ms\n", Median(without), Median(with)) +
           absl::StrFormat("  on the link %8.1f ms of a step, of which %8.1f ms are waited for\n",
                           SummaryOf(rounds_, &OverlapRound::link_seconds, 1e3).median,
                           SummaryOf(rounds_, &OverlapRound::exposed_seconds, 1e3).median) +
           absl::StrFormat("  hidden %5.1f%% (%.1f..%.1f)\n", hidden.median, hidden.least, hidden.most);
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const OverlapRound& round : rounds_) {
      json.push_back({{"step_seconds_without_link", round.without.step_seconds},
                      {"step_seconds_with_link", round.with.step_seconds},
                      {"link_seconds", round.link_seconds()},
                      {"exposed_seconds", round.exposed_seconds()},
                      {"hidden", round.hidden()}});
    }
    return json;
  }

 private:
  const BenchContext& context_;
  std::vector<OverlapRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeOverlapCase(const BenchContext& context) {
  return std::make_unique<OverlapCase>(context);
}

}  // namespace oneflow
