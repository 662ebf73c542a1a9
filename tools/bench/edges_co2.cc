#include "tools/bench/edges_co2.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/local_training.h"
#include "compiler/lower/program_text.h"
#include "nlohmann/json.hpp"
#include "tools/bench/edges_co2_quality.h"
#include "tools/bench/measurement.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"
#include "tools/job/median.h"

namespace oneflow {
namespace {

constexpr int kGroups = 2;
constexpr double kLinkMsPerMb = 80;  // 100 Mbit/s
constexpr int64_t kNever = int64_t{1} << 40;
// Weights and batches of the trial whose bars these are: 86,000 weights, 32 samples of each group.
constexpr char kCo2Config[] = R"(
name: "edges-co2"
model { margin_classifier { widths: [192] embedding: 128 } }
data { prototypes { classes: 98 height: 16 width: 16 } }
mesh { dp: 2 }
cluster { processes: 2 }
train { steps: 2 batch_size: 64 optimizer { adamw {} } schedule { learning_rate: 1e-3 } }
)";
// Steps of a run: with an exchange in each step, and otherwise.
constexpr int64_t kExactSteps = 120, kSteps = 2000;
// Pairs of runs without an exchange and with a hidden one: the machine's speed changes within a minute.
constexpr int kTurns = 5;

struct Co2Round {
  double alone = 0, exact = 0, hidden = 0, exposed = 0;  // steps per second
  double mean_ms = 0;                                    // on the link, of a mean
  double of_alone = 0;                                   // the median of hidden / alone over pairs of runs
  int64_t tau = 0, short_tau = 0;

  double of_exact() const { return hidden / exact; }
  double short_of_alone() const { return exposed / alone; }
  double times_longer() const { return mean_ms * 1e-3 * alone; }  // than a step
};

// From the first loss of the last three quarters to the last one.
absl::StatusOr<double> StepsPerSecond(const std::vector<pb::JobEvent>& events) {
  std::map<int64_t, int64_t> times_us;
  for (const pb::JobEvent& event : events) {
    const pb::FetchedValue& value = event.fetched();
    if (event.has_fetched() && value.name() == "loss") times_us[value.step()] = event.time_us();
  }
  if (times_us.size() < 8) return absl::InternalError(absl::StrCat("there are only ", times_us.size(), " losses"));
  const auto last = std::prev(times_us.end()), first = times_us.lower_bound(last->first / 4);
  return static_cast<double>(last->first - first->first) * 1e6 / static_cast<double>(last->second - first->second);
}

class EdgesCo2Case : public BenchCase {
 public:
  explicit EdgesCo2Case(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    Co2Round round;
    OF_ASSIGN_OR_RETURN(round.alone, Run(kNever, kSteps, &round.mean_ms));
    OF_ASSIGN_OR_RETURN(round.exact, Run(0, kExactSteps, nullptr));
    round.tau = std::max<int64_t>(1, 2 * static_cast<int64_t>(std::ceil(round.times_longer())));
    round.short_tau = std::max<int64_t>(1, static_cast<int64_t>(round.times_longer() / 2));
    OF_ASSIGN_OR_RETURN(round.exposed, Run(round.short_tau, kSteps, nullptr));
    std::vector<double> alone, hidden, of_alone;
    for (int turn = 0; turn < kTurns; ++turn) {
      OF_ASSIGN_OR_RETURN(alone.emplace_back(), Run(kNever, kSteps, nullptr));
      OF_ASSIGN_OR_RETURN(hidden.emplace_back(), Run(round.tau, kSteps, nullptr));
      of_alone.push_back(hidden.back() / alone.back());
    }
    round.alone = Median(alone), round.hidden = Median(hidden), round.of_alone = Median(of_alone);
    rounds_.push_back(round);
    if (quality_.rows.empty()) {
      OF_ASSIGN_OR_RETURN(quality_, MeasureCo2Quality(context_));  // it is a function of its seeds
    }
    return absl::StrFormat("\n  %.3f of no exchange, %.1f x data parallelism", round.of_alone, round.of_exact());
  }

  std::string Text() const override {
    const auto row = [&](const char* name, auto value, const char* bar) {
      const Summary of = SummaryOf(rounds_, value);
      return absl::StrFormat("  %-52s %8.3f (%.3f..%.3f)   %s\n", name, of.median, of.least, of.most, bar);
    };
    const Co2Round& last = rounds_.back();
    return absl::StrFormat("edges-co2: two processes, a link of 100 Mbit/s; a mean takes %.1f ms on it\n",
                           last.mean_ms) +
           absl::StrFormat(
               "  steps/s, medians of the last round: %.0f without an exchange, %.1f of data parallelism, %.0f of CO2 "
               "with tau %d, %.0f with tau %d\n",
               last.alone, last.exact, last.hidden, last.tau, last.exposed, last.short_tau) +
           row("a mean takes as long as so many steps", &Co2Round::times_longer, "at least 20") +
           row("CO2 of no exchange, tau twice as long as needed", &Co2Round::of_alone, "at least 0.85") +
           row("CO2 of data parallelism", &Co2Round::of_exact, "at least 10") +
           row("control: CO2 of no exchange, tau half of what is needed", &Co2Round::short_of_alone, "below 0.85") +
           QualityText();
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const Co2Round& round : rounds_) {
      json.push_back({{"steps_per_second_alone", round.alone},
                      {"steps_per_second_exact", round.exact},
                      {"steps_per_second_co2", round.hidden},
                      {"steps_per_second_short_tau", round.exposed},
                      {"mean_ms", round.mean_ms},
                      {"tau", round.tau},
                      {"short_tau", round.short_tau}});
    }
    nlohmann::json losses = nlohmann::json::object();
    for (const auto& [name, loss] : quality_.losses) losses[name] = loss;
    return {{"rounds", json}, {"validation_losses", losses}};
  }

  std::vector<Plot> Plots() const override {
    return {{"loss",
             "loss of the next byte by what a rank has sent, seed 1",
             {"MB that a rank has sent", true},
             {"nats"},
             quality_.by_bytes}};
  }

 private:
  std::string QualityText() const {
    std::string text = "  validation losses, means of three seeds:";
    for (const auto& [name, loss] : quality_.losses) absl::StrAppendFormat(&text, "\n    %-44s %8.3f", name, loss);
    for (const QualityRow& row : quality_.rows) {
      absl::StrAppendFormat(&text, "\n  %-52s %8.3f   at %s %.2f: %s", row.what, row.value,
                            row.at_most ? "most" : "least", row.bar, row.holds() ? "holds" : "does not hold");
    }
    return text + "\n";
  }

  // tau 0: all take every step together. `mean_ms`: set to what the mean of a round takes on the link.
  absl::StatusOr<double> Run(int64_t tau, int64_t steps, double* mean_ms) {
    OF_RETURN_IF_ERROR(BeginPart(context_, tau == kNever ? "no exchange"
                                           : tau == 0    ? "exact"
                                                         : absl::StrCat("tau ", tau)));
    OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(kCo2Config, "(edges-co2)"));
    config.config.mutable_cluster()->set_cores_per_process(std::max(1, context_.cores / kGroups));
    config.config.mutable_cluster()->set_emulated_ms_per_mb(kLinkMsPerMb);
    for (const std::string& assignment : context_.sets) OF_RETURN_IF_ERROR(ApplyOverride(assignment, config));
    config.config.mutable_train()->set_steps(steps);
    if (tau > 0) config.config.mutable_sync()->mutable_co2()->set_tau(tau);
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, context_.ops));
    OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, context_.ops));
    if (mean_ms != nullptr) {
      for (const pb::Plan& one : program.plans()) {
        if (one.name() != kOuterPlan) continue;
        *mean_ms = kLinkMsPerMb * 1e-6 * static_cast<double>(PredictedBytesMoved(one)) / kGroups;
      }
    }
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(job.spec, context_.stop));
    return StepsPerSecond(events);
  }

  const BenchContext& context_;
  std::vector<Co2Round> rounds_;
  Co2Quality quality_;  // measured in the first round
};

}  // namespace

std::unique_ptr<BenchCase> MakeEdgesCo2Case(const BenchContext& context) {
  return std::make_unique<EdgesCo2Case>(context);
}

}  // namespace oneflow
