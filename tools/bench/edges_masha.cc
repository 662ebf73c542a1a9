#include "tools/bench/edges_masha.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/data/game.h"
#include "compiler/points.h"
#include "nlohmann/json.hpp"
#include "tools/bench/moved_words.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"
#include "tools/job/points.h"

namespace oneflow {
namespace {

constexpr int64_t kGameDimension = 50, kGameNumbers = 2 * kGameDimension;
constexpr uint64_t kGameSeed = 7;
constexpr double kGameCondition = 100, kGameDistance = 1e-6;
constexpr double kFarAway = 100;       // of distances that are drawn
constexpr size_t kPointsOfPath = 200;  // of a method

struct GameSetting {
  const char* name;
  int64_t workers;
  double heterogeneity, density;
};
constexpr GameSetting kGameSettings[] = {{"20 workers, heterogeneity 1, a twentieth", 20, 1, 0.05},
                                         {"10 workers, heterogeneity 0.1, a tenth", 10, 0.1, 0.1}};
constexpr size_t kNumGameSettings = std::size(kGameSettings);

enum class GameCode { kNone, kRandK, kTopK };

// `rate` and `steps` by setting; a rate of 0 is the one of theory. Rates and probabilities were tuned elsewhere (each
// method on its own, on numbers of another generator).
struct GameMethod {
  const char* name;
  const char* optimizer;
  double probability;  // of moving the anchor, times the density; 0: there is no anchor
  GameCode code;
  bool shift;
  double rate[kNumGameSettings];
  int64_t steps[kNumGameSettings];
  int64_t workers_per_sender = 1;  // of so many workers one sends in a step
};
constexpr GameMethod kGameMethods[] = {
    {"extragradient", "extragradient", 0, GameCode::kNone, false, {1, 1}, {900, 900}},
    {"optimistic", "optimistic", 0, GameCode::kNone, false, {0.444, 0.444}, {2000, 2000}},
    {"descent and ascent", "sgd", 0, GameCode::kNone, false, {0.444, 0.444}, {2000, 2000}},
    {"extragradient, RANDK", "extragradient", 0, GameCode::kRandK, false, {0.132, 0.296}, {6000, 3500}},
    {"extragradient, TOPK", "extragradient", 0, GameCode::kTopK, false, {0.132, 0.296}, {4000, 2000}},
    {"masha, RANDK, p half", "masha", 0.5, GameCode::kRandK, false, {0.132, 0.296}, {14000, 6000}},
    {"masha, RANDK, p one", "masha", 1, GameCode::kRandK, false, {0.198, 0.296}, {9000, 6000}},
    {"masha, RANDK, p double", "masha", 2, GameCode::kRandK, false, {0.296, 0.444}, {6000, 4000}},
    {"masha, RANDK, rate of theory", "masha", 1, GameCode::kRandK, false, {0, 0}, {30000, 16000}},
    {"masha, RANDK, half of the workers", "masha", 1, GameCode::kRandK, false, {0.132, 0.198}, {20000, 12000}, 2},
    {"masha, TOPK", "masha", 2, GameCode::kTopK, false, {0.132, 0.296}, {15000, 7000}},
    {"extragradient, RANDK, shift", "extragradient", 0, GameCode::kRandK, true, {0.132, 0.296}, {7000, 3500}},
};

struct GameResult {
  int64_t steps = 0;    // until the distance was that; 0: it never was
  double vectors = 0;   // that a worker sent by then, or in all
  double distance = 0;  // the last
  PlotSeries path;      // distances by vectors sent
};

class EdgesMashaCase : public BenchCase {
 public:
  explicit EdgesMashaCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    if (!results_[0].empty()) return "the same as before: it follows from its seeds";
    for (size_t setting = 0; setting < kNumGameSettings; ++setting) {
      for (const GameMethod& method : kGameMethods) {
        OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(kGameSettings[setting].workers, ": ", method.name)));
        GameResult& result = results_[setting][method.name];
        OF_ASSIGN_OR_RETURN(result, Train(setting, method));
        std::cerr << absl::StrFormat("%6d steps, distance %7.1e", result.steps, result.distance);
      }
    }
    OF_ASSIGN_OR_RETURN(words_, MeasureMovedWords(context_));
    return absl::StrFormat("\n  %.2f and %.2f of extragradient's bytes", OfExtragradient(0), OfExtragradient(1));
  }

  std::string Text() const override {
    std::string text =
        absl::StrFormat("edges-masha: a bilinear game of %d numbers, condition %.0f, until |z - z*|^2 / |z*|^2 < %g\n",
                        kGameNumbers, kGameCondition, kGameDistance);
    for (size_t i = 0; i < kNumGameSettings; ++i) {
      absl::StrAppendFormat(&text, "  %-42s %8s %22s %10s\n", kGameSettings[i].name, "steps", "vectors a worker sent",
                            "distance");
      for (const GameMethod& method : kGameMethods) {
        const GameResult& result = results_[i].at(method.name);
        absl::StrAppendFormat(&text, "    %-40s %8s %22.0f %10.1e\n", method.name,
                              result.steps == 0 ? "-" : absl::StrCat(result.steps), result.vectors, result.distance);
      }
    }
    for (size_t i = 0; i < kNumGameSettings; ++i) {
      const auto line = [&](const std::string& what, double value, const char* bar, bool holds) {
        absl::StrAppendFormat(&text, "  %-64s %9.2g   %s: %s\n",
                              absl::StrCat(kGameSettings[i].workers, " workers: ", what), value, bar,
                              holds ? "holds" : "does not hold");
      };
      const auto ends = [&](const std::string& name) { return results_[i].at(name).distance; };
      const auto found = [&](const std::string& name) { return results_[i].at(name).steps > 0; };
      line("masha, of extragradient's bytes", OfExtragradient(i), "at most 0.6", OfExtragradient(i) <= 0.6);
      const double theory = VectorsOf(i, "masha, RANDK, rate of theory") / VectorsOf(i, "extragradient");
      line("with the rate of theory", theory, "at most 2.5", theory <= 2.5);
      const double naive = ends("extragradient, RANDK");
      line("codes of the gradients themselves, distance", naive, "above 1e-3", !(naive <= 1e-3));
      const double together = ends("descent and ascent");
      line("descent and ascent at once, distance", together, "above 1e-3", !(together <= 1e-3));
      const std::string half = "masha, RANDK, half of the workers";
      line(absl::StrCat(half, ", distance"), ends(half), "below 1e-6", found(half));
      line("masha, TOPK, distance", ends("masha, TOPK"), "below 1e-6", found("masha, TOPK"));
      line("TOPK without an anchor, distance", ends("extragradient, TOPK"), "above 1e-6",
           !found("extragradient, TOPK"));
    }
    return text + MovedWordsText(words_);
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::object();
    for (size_t i = 0; i < kNumGameSettings; ++i) {
      for (const auto& [name, result] : results_[i]) {
        json[kGameSettings[i].name][name] = {
            {"steps", result.steps}, {"vectors", result.vectors}, {"distance", result.distance}};
      }
    }
    for (const MovedWords& row : words_) json["words"][row.name] = {{"test_nats", row.loss}, {"bytes", row.bytes}};
    return json;
  }

  std::vector<Plot> Plots() const override {
    std::vector<Plot> plots;
    for (size_t i = 0; i < kNumGameSettings; ++i) {
      Plot plot = {absl::StrCat("distance-", kGameSettings[i].workers, "-workers"),
                   absl::StrCat("bilinear game, ", kGameSettings[i].name),
                   {"whole vectors that a worker has sent"},
                   {"|z - z*|^2 / |z*|^2", true},
                   {}};
      for (const GameMethod& method : kGameMethods) plot.series.push_back(results_[i].at(method.name).path);
      plots.push_back(std::move(plot));
    }
    return plots;
  }

 private:
  // Infinite where it did not find the solution.
  double VectorsOf(size_t setting, const std::string& method) const {
    const GameResult& result = results_[setting].at(method);
    return result.steps == 0 ? std::numeric_limits<double>::infinity() : result.vectors;
  }
  double OfExtragradient(size_t setting) const {
    double least = std::numeric_limits<double>::infinity();
    for (const char* p : {"half", "one", "double"}) {
      least = std::min(least, VectorsOf(setting, absl::StrCat("masha, RANDK, p ", p)));
    }
    return least / VectorsOf(setting, "extragradient");
  }

  // sqrt(p) / 2 C, where C = L sqrt(q / workers + 1), L is the workers' smoothness and q what a code of k of n elements
  // multiplies squares by.
  static double RateOfTheory(const GameSetting& setting, double probability) {
    const Game game = MakeGame({.dimension = kGameDimension,
                                .workers = setting.workers,
                                .heterogeneity = setting.heterogeneity,
                                .condition = kGameCondition,
                                .seed = kGameSeed});
    const double q = 1 / setting.density, workers = static_cast<double>(setting.workers);
    const double by_variance = std::sqrt(probability) / (2 * game.smoothness * std::sqrt(q / workers + 1));
    return std::min(by_variance, probability / (2 / kGameCondition));
  }

  absl::StatusOr<GameResult> Train(size_t index, const GameMethod& method) {
    const GameSetting& setting = kGameSettings[index];
    const double probability = method.probability * setting.density;
    const double rate = method.rate[index] > 0 ? method.rate[index] : RateOfTheory(setting, probability);
    std::string config = absl::StrFormat(
        "name: 'edges-masha' seed: %d model { bilinear {} } data { game { dimension: %d workers: %d heterogeneity: %g "
        "condition: %g } } mesh { dp: %d } train { steps: %d batch_size: %d optimizer { %s { %s } groups { match: 'y' "
        "ascent: true } } schedule { learning_rate: %.10g } stop { finite: false } }",
        kGameSeed, kGameDimension, setting.workers, setting.heterogeneity, kGameCondition, setting.workers,
        method.steps[index], setting.workers, method.optimizer,
        probability > 0 ? absl::StrFormat("probability: %g", probability) : "", rate);
    if (method.code != GameCode::kNone) {
      absl::StrAppendFormat(&config, " compress { family: %s default: %g %s%s participants: %d }",
                            method.code == GameCode::kRandK ? "RANDK" : "TOPK", setting.density,
                            method.code == GameCode::kRandK ? "own_seeds: true " : "",
                            method.shift ? absl::StrFormat("shift_rate: %g", setting.density) : "",
                            method.workers_per_sender == 1 ? 0 : setting.workers / method.workers_per_sender);
    }
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "(edges-masha)"));
    sourced.config.mutable_cluster()->set_processes(setting.workers % 4 == 0 ? 4 : 2);
    sourced.config.mutable_cluster()->set_cores_per_process(1);
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, context_.ops));
    OF_RETURN_IF_ERROR(CompleteSpec(job, context_.ops));
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(job.spec, context_.stop));
    return ResultOf(job, method, setting, events);
  }

  static GameResult ResultOf(const Job& job, const GameMethod& method, const GameSetting& setting,
                             const std::vector<pb::JobEvent>& events) {
    std::map<int64_t, double> distances;
    for (const pb::JobEvent& event : events) {
      const pb::FetchedValue& value = event.fetched();
      if (event.has_fetched() && value.name() == "distance") distances[value.step()] = value.values(0);
    }
    GameResult result;
    if (distances.empty()) return result;
    const double last = distances.rbegin()->second;
    result.distance = std::isnan(last) ? std::numeric_limits<double>::infinity() : last;  // the numbers overflowed
    const auto near = [](const auto& step) { return step.second < kGameDistance; };
    const auto first = std::find_if(distances.begin(), distances.end(), near);
    if (first != distances.end()) result.steps = first->first + 1;
    result.vectors = VectorsSent(job, method, setting, result.steps > 0 ? result.steps : distances.rbegin()->first + 1);
    // Until it is found; far beyond the start nobody looks.
    result.path.name = method.name;
    const auto every = static_cast<int64_t>(distances.size() / kPointsOfPath + 1);
    for (const auto& [step, distance] : distances) {
      if (distance > kFarAway || (result.steps > 0 && step >= result.steps)) break;
      if (step % every == 0 || step + 1 == result.steps)
        result.path.points.emplace_back(VectorsSent(job, method, setting, step + 1), distance);
    }
    return result;
  }

  // That a worker sends in so many steps, on average: codes of x and of y, and whole vectors.
  static double VectorsSent(const Job& job, const GameMethod& method, const GameSetting& setting, int64_t steps) {
    const double d = kGameDimension, stratum = std::ceil(1 / setting.density);
    double of_code = 1;
    if (method.code == GameCode::kRandK) of_code = 2 * std::ceil(d / stratum) / kGameNumbers;
    if (method.code == GameCode::kTopK) of_code = 2 * 2 * std::max(1.0, std::floor(setting.density * d)) / kGameNumbers;
    const int exchanges = std::string(method.optimizer) == "extragradient" ? 2 : 1;
    double vectors = of_code * exchanges * static_cast<double>(steps) / static_cast<double>(method.workers_per_sender);
    for (const pb::Phase& phase : job.spec.phases()) {
      vectors += static_cast<double>(RunsOfPlan(kAnchorPlan, phase.train().points(), kGameSeed, steps));
    }
    return vectors;
  }

  const BenchContext& context_;
  std::map<std::string, GameResult> results_[kNumGameSettings];  // by method
  std::vector<MovedWords> words_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeEdgesMashaCase(const BenchContext& context) {
  return std::make_unique<EdgesMashaCase>(context);
}

}  // namespace oneflow
