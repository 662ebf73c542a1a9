#include "tools/bench/simulate_scale.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/lower/compile.h"
#include "nlohmann/json.hpp"
#include "sbp/device_kinds.h"
#include "tools/bench/compile_scale.h"
#include "tools/bench/expense.h"
#include "tools/bench/measurement.h"
#include "tools/control/process/peak_bytes.h"
#include "tools/study/sim/folded_plan.h"
#include "tools/study/trace/summary.h"

namespace oneflow {
namespace {

constexpr int kDevicesOfSimulatedHost = 8;
constexpr ScaleCase kSimulations[] = {
    {"gpt1t", "GPT-1T, pp64 x dp6 x tp8", 64, 6, 8, 128, 128, 25'600, 160, 0, "1f1b"},
    {"llama-70b", "70B, pp8 x dp2 x tp8", 8, 2, 8, 32, 80, 8'192, 64, 0, "1f1b"},
};

struct SimulateRound {
  double compile_seconds = 0, fold_seconds = 0, play_seconds = 0, tell_seconds = 0;
  int ranks = 0, played = 0, spelled = 0;
  int64_t acts = 0, steps = 0, peak_bytes = 0;
  double step_seconds = 0;  // of the simulated job

  double seconds() const { return compile_seconds + fold_seconds + play_seconds + tell_seconds; }
};

// Hosts of eight H100 with a card of 400 Gbit/s for each.
std::vector<HostGroup> HostsFor(int ranks) {
  HostGroup host;
  host.devices = kDevicesOfSimulatedHost;
  host.count = (ranks + kDevicesOfSimulatedHost - 1) / kDevicesOfSimulatedHost;
  host.device = UsualDevice(DeviceKind::kCuda);
  host.device.memory_bytes = 0;  // what it takes is another matter
  host.nics = {*NicsOfClass("infiniband")};
  host.nics[0].count = kDevicesOfSimulatedHost;
  return {host};
}

absl::StatusOr<SimulateRound> MeasureSimulation(const ScaleCase& it, const OpRegistry& ops) {
  SimulateRound round;
  ResetPeak();
  OF_ASSIGN_OR_RETURN(Graph graph, ScaleGraph(it, ops));
  OF_ASSIGN_OR_RETURN(CompileOptions options, ScaleOptions(it));
  round.ranks = options.mesh.size();
  options.hosts = HostsFor(round.ranks);
  Program program;
  program.push_back(std::move(graph));
  Stopwatch watch;
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set, Compile(program, options, ops));
  round.compile_seconds = watch.Lap();
  OF_ASSIGN_OR_RETURN(Topology topology, Topology::Create(round.ranks, options.ranks_per_process, options.hosts));
  OF_ASSIGN_OR_RETURN(const PartPrograms programs, PartPrograms::Of(set));
  PricedRanks priced(set, programs, 0, PredictedRankCosts(std::move(topology), ops));
  OF_ASSIGN_OR_RETURN(PlayedRanks ranks, FindPlayedRanks(priced, {}));
  OF_ASSIGN_OR_RETURN(const FoldedPlan folded, FoldedPlan::Make(priced, std::move(ranks), ""));
  round.played = static_cast<int>(folded.ranks().played.size());
  round.spelled = priced.num_spelled();
  round.fold_seconds = watch.Lap();
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(folded.program(), 0, kUntilSteady, folded.Costs()));
  round.acts = static_cast<int64_t>(simulation.trace.acts.size());
  round.steps = static_cast<int64_t>(simulation.step_ends_ns.size());
  round.play_seconds = watch.Lap();
  OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(simulation.trace, ""));
  round.step_seconds = summary.steps.median_seconds();
  round.tell_seconds = watch.Lap();
  round.peak_bytes = PeakBytes();
  return round;
}

class SimulateScaleCase : public BenchCase {
 public:
  explicit SimulateScaleCase(const BenchContext& context) : ops_(context.ops), stop_(context.stop) {}

  absl::StatusOr<std::string> RunRound() override {
    std::string text;
    for (size_t i = 0; i < std::size(kSimulations); ++i) {
      if (stop_) return absl::CancelledError("interrupted");
      OF_ASSIGN_OR_RETURN_AT(rounds_[i].emplace_back(), MeasureSimulation(kSimulations[i], ops_), kSimulations[i].name);
      absl::StrAppend(&text, absl::StrFormat(" %s %.1f s", kSimulations[i].name, rounds_[i].back().seconds()));
    }
    return text;
  }

  std::string Text() const override {
    std::string text =
        absl::StrFormat("%-26s %6s %7s %7s %9s %6s %8s %8s %8s %8s %8s %8s %10s\n", "simulate-scale", "ranks", "played",
                        "spelled", "acts", "steps", "total s", "compile", "fold", "play", "tell", "RSS GB", "s a step");
    for (size_t i = 0; i < std::size(kSimulations); ++i) {
      const SimulateRound it = MedianOf(rounds_[i]);
      absl::StrAppend(
          &text, absl::StrFormat("%-26s %6d %7d %7d %9d %6d %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %10.3f\n",
                                 kSimulations[i].title, it.ranks, it.played, it.spelled, it.acts, it.steps,
                                 it.seconds(), it.compile_seconds, it.fold_seconds, it.play_seconds, it.tell_seconds,
                                 1e-9 * static_cast<double>(it.peak_bytes), it.step_seconds));
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (size_t i = 0; i < std::size(kSimulations); ++i) {
      for (const SimulateRound& it : rounds_[i]) {
        json.push_back({{"name", kSimulations[i].name},
                        {"ranks", it.ranks},
                        {"played", it.played},
                        {"spelled", it.spelled},
                        {"acts", it.acts},
                        {"steps", it.steps},
                        {"seconds", it.seconds()},
                        {"compile_seconds", it.compile_seconds},
                        {"fold_seconds", it.fold_seconds},
                        {"play_seconds", it.play_seconds},
                        {"tell_seconds", it.tell_seconds},
                        {"peak_bytes", it.peak_bytes},
                        {"step_seconds", it.step_seconds}});
      }
    }
    return json;
  }

 private:
  // The round whose total is the median.
  static SimulateRound MedianOf(std::vector<SimulateRound> rounds) {
    std::sort(rounds.begin(), rounds.end(), [](const auto& a, const auto& b) { return a.seconds() < b.seconds(); });
    return rounds[rounds.size() / 2];
  }

  const OpRegistry& ops_;
  const std::atomic<bool>& stop_;
  std::vector<SimulateRound> rounds_[std::size(kSimulations)];
};

}  // namespace

std::unique_ptr<BenchCase> MakeSimulateScaleCase(const BenchContext& context) {
  return std::make_unique<SimulateScaleCase>(context);
}

}  // namespace oneflow
