#include "tools/bench/overlap.h"

#include <iterator>
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
constexpr char kConfig[] = R"(
name: "overlap"
model { gpt { layers: 4 width: 384 heads: 6 context: 128 } }
data { text { path: "" } }
mesh { dp: 2 }
cluster { processes: 2 }
train {
  steps: 4
  batch_size: 16
  optimizer { adamw { weight_decay: 0.1 } }
  schedule { learning_rate: 1e-3 }
}
)";
constexpr double kMsPerMb[] = {2, 4};  // of the links, each of which may carry so much in both directions at once

struct OverlapWay {
  const char* name;
  int stage;  // of ZeRO
};
constexpr OverlapWay kOverlapWays[] = {{"copies of all state", 0}, {"ZeRO, stage 3", 3}};

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
    std::string line;
    for (size_t way = 0; way < std::size(kOverlapWays); ++way) {
      config.config.clear_zero();
      if (kOverlapWays[way].stage > 0) config.config.mutable_zero()->set_stage(kOverlapWays[way].stage);
      config.config.mutable_cluster()->clear_emulated_ms_per_mb();
      OF_ASSIGN_OR_RETURN(const Round without, RunConfig(config, context_));
      for (size_t link = 0; link < std::size(kMsPerMb); ++link) {
        config.config.mutable_cluster()->set_emulated_ms_per_mb(kMsPerMb[link]);
        OverlapRound round{without, {}};
        OF_ASSIGN_OR_RETURN(round.with, RunConfig(config, context_));
        rounds_[way][link].push_back(std::move(round));
        absl::StrAppendFormat(&line, " %5.0f %%", 100 * rounds_[way][link].back().hidden());
      }
    }
    return line + " hidden";
  }

  std::string Text() const override {
    std::string text = "overlap: a GPT on two processes, links of some ms per MB beside none\n";
    absl::StrAppend(&text,
                    "                        ms/MB   a step     with none   on the link   waited for   hidden\n");
    for (size_t way = 0; way < std::size(kOverlapWays); ++way) {
      for (size_t link = 0; link < std::size(kMsPerMb); ++link) {
        const std::vector<OverlapRound>& rounds = rounds_[way][link];
        std::vector<double> without, with;
        for (const OverlapRound& round : rounds) {
          without.push_back(1e3 * round.without.step_seconds);
          with.push_back(1e3 * round.with.step_seconds);
        }
        const Summary hidden = SummaryOf(rounds, &OverlapRound::hidden, 100);
        absl::StrAppendFormat(
            &text, "  %-20s %7g %8.1f ms %10.1f ms %8.1f ms %9.1f ms   %4.0f%% (%.0f..%.0f)\n", kOverlapWays[way].name,
            kMsPerMb[link], Median(with), Median(without), SummaryOf(rounds, &OverlapRound::link_seconds, 1e3).median,
            SummaryOf(rounds, &OverlapRound::exposed_seconds, 1e3).median, hidden.median, hidden.least, hidden.most);
      }
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (size_t way = 0; way < std::size(kOverlapWays); ++way) {
      for (size_t link = 0; link < std::size(kMsPerMb); ++link) {
        for (const OverlapRound& round : rounds_[way][link]) {
          json.push_back({{"zero_stage", kOverlapWays[way].stage},
                          {"ms_per_mb", kMsPerMb[link]},
                          {"step_seconds_without_link", round.without.step_seconds},
                          {"step_seconds_with_link", round.with.step_seconds},
                          {"link_seconds", round.link_seconds()},
                          {"exposed_seconds", round.exposed_seconds()},
                          {"hidden", round.hidden()}});
        }
      }
    }
    return json;
  }

 private:
  const BenchContext& context_;
  std::vector<OverlapRound> rounds_[std::size(kOverlapWays)][std::size(kMsPerMb)];
};

}  // namespace

std::unique_ptr<BenchCase> MakeOverlapCase(const BenchContext& context) {
  return std::make_unique<OverlapCase>(context);
}

}  // namespace oneflow
