#include "tools/bench/edges_lgreco.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/code_choices.h"
#include "nlohmann/json.hpp"
#include "tools/bench/header_text.h"
#include "tools/bench/measurement.h"
#include "tools/bench/next_word.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

constexpr int64_t kLgrecoRanks = 4, kLgrecoBatch = 32 * kLgrecoRanks, kLgrecoSteps = 2000, kLgrecoExactSteps = 100;
constexpr int64_t kTestRows = 8192, kTestBatch = 128;
constexpr int kSeedsOfRound = 3;

struct LgrecoRun {
  const char* name;
  const char* compress;  // empty: exact
};
// Each family: uniform, chosen, and uniform of about as few bytes.
constexpr LgrecoRun kLgrecoRuns[] = {
    {"exact", ""},
    {"TOPK 1 %", "family: TOPK default: 0.01"},
    {"TOPK 1 %, chosen", "family: TOPK default: 0.01 adaptive { every: 200 }"},
    {"TOPK 0.7 %", "family: TOPK default: 0.007"},
    {"POWERSGD 4", "family: POWERSGD default: 4"},
    {"POWERSGD 4, chosen", "family: POWERSGD default: 4 adaptive { every: 200 }"},
    {"POWERSGD 3", "family: POWERSGD default: 3"},
    {"QUANT 4", "family: QUANT default: 4"},
    {"QUANT 4, chosen", "family: QUANT default: 4 adaptive { every: 200 }"},
    {"POWERSGD 2", "family: POWERSGD default: 2"},
    {"POWERSGD 2, chosen", "family: POWERSGD default: 2 adaptive { every: 200 high: 4 }"},
    {"POWERSGD 1", "family: POWERSGD default: 1"},
};

struct LgrecoResult {
  double loss = 0;
  double choosing = 0;  // the share of the time that choices take
  double ratio = 1;     // bytes of the matrices without codes, of those with, behind the exact steps
  std::map<std::string, std::vector<double>> counts;  // that were chosen with the first seed, by matrix
};

class EdgesLgrecoCase : public BenchCase {
 public:
  explicit EdgesLgrecoCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    OF_RETURN_IF_ERROR(WriteFiles());
    const int first = num_seeds_ + 1;
    for (const LgrecoRun& run : kLgrecoRuns) {
      for (int seed = first; seed < first + kSeedsOfRound; ++seed) {
        OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(run.name, ", seed ", seed)));
        OF_ASSIGN_OR_RETURN(LgrecoResult result, Train(run, seed));
        std::cerr << absl::StrFormat("%6.3f nats", result.loss);
        AddToMean(std::move(result), seed, results_[run.name]);
      }
    }
    num_seeds_ += kSeedsOfRound;
    return absl::StrFormat("\n  TOPK %.2f x, POWERSGD %.2f x, QUANT %.2f x fewer bytes", Gain("TOPK 1 %"),
                           Gain("POWERSGD 4"), Gain("QUANT 4"));
  }

  std::string Text() const override {
    std::string text = absl::StrFormat(
        "edges-lgreco: %d ranks, %d steps, of which the first %d are exact; means of %d seeds\n"
        "  %-24s %10s %10s\n",
        kLgrecoRanks, kLgrecoSteps, kLgrecoExactSteps, num_seeds_, "", "test nats", "bytes, x");
    for (const LgrecoRun& run : kLgrecoRuns) {
      const LgrecoResult& result = results_.at(run.name);
      absl::StrAppendFormat(&text, "  %-24s %10.3f %10.2f\n", run.name, result.loss, result.ratio);
    }
    for (const auto& [family, bar] :
         {std::pair<std::string, double>{"TOPK 1 %", 1.3}, {"POWERSGD 4", 1.2}, {"QUANT 4", 1.03}}) {
      const double gain = Gain(family), loss = results_.at(family + ", chosen").loss - results_.at(family).loss;
      absl::StrAppendFormat(&text, "  %-52s %8.3f   at least %.2f: %s\n", family + ": fewer bytes than uniform", gain,
                            bar, gain >= bar ? "holds" : "does not hold");
      absl::StrAppendFormat(&text, "  %-52s %+8.3f   at most 0.02: %s\n", family + ": loss over uniform", loss,
                            loss <= 0.02 ? "holds" : "does not hold");
    }
    const double gap = BelowUniformLine();
    absl::StrAppendFormat(&text, "  %-52s %8.3f   at least 0.015: %s\n",
                          "POWERSGD 2: loss below the line of uniform 1 and 2", gap,
                          gap >= 0.015 ? "holds" : "does not hold");
    double choosing = 0;
    for (const auto& [name, result] : results_) choosing = std::max(choosing, result.choosing);
    absl::StrAppendFormat(&text, "  %-52s %7.2f%%   at most 1%%: %s\n", "errors and choice, of the time of a period",
                          100 * choosing, choosing <= 0.01 ? "holds" : "does not hold");
    for (const LgrecoRun& run : kLgrecoRuns) {
      for (const auto& [name, counts] : results_.at(run.name).counts) {
        absl::StrAppendFormat(&text, "  %s, %s:", run.name, name);
        for (const double count : counts) absl::StrAppendFormat(&text, " %.0f", count);
        text += "\n";
      }
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [name, result] : results_) {
      json[name] = {{"test_nats", result.loss}, {"ratio", result.ratio}, {"counts", result.counts}};
    }
    return json;
  }

  std::vector<Plot> Plots() const override {
    Plot losses = {"loss",
                   "test loss by the bytes of the matrices' codes, means of seeds",
                   {"times fewer bytes", true},
                   {"nats"},
                   {}};
    for (const char* family : {"TOPK", "POWERSGD", "QUANT"}) {
      for (const bool is_chosen : {false, true}) {
        PlotSeries series = {absl::StrCat(family, is_chosen ? ", chosen" : ""), {}};
        for (const LgrecoRun& run : kLgrecoRuns) {
          const std::string name = run.name;
          const LgrecoResult& result = results_.at(name);
          if (absl::StartsWith(name, family) && absl::EndsWith(name, "chosen") == is_chosen)
            series.points.emplace_back(result.ratio, result.loss);
        }
        std::sort(series.points.begin(), series.points.end());
        losses.series.push_back(std::move(series));
      }
    }
    losses.series.push_back({"exact", {{1, results_.at("exact").loss}}});
    return {losses, CountsPlot("TOPK 1 %, chosen", "share", "elements of a rank"),
            CountsPlot("POWERSGD 4, chosen", "rank", "rank"), CountsPlot("QUANT 4, chosen", "bits", "bits")};
  }

 private:
  // What was chosen for each matrix, over time.
  Plot CountsPlot(const std::string& run, const std::string& name, const std::string& unit) const {
    Plot plot = {name, absl::StrCat(run, ": by matrix, seed 1"), {"step"}, {unit, name == "share"}, {}};
    for (const auto& [matrix, counts] : results_.at(run).counts) {
      PlotSeries series = {matrix, {}};
      for (size_t i = 0; i < counts.size(); ++i) {
        series.points.emplace_back(static_cast<double>(kLgrecoExactSteps + 200 * (static_cast<int64_t>(i) + 1)),
                                   counts[i]);
      }
      plot.series.push_back(std::move(series));
    }
    return plot;
  }

  double Gain(const std::string& family) const {
    return results_.at(family + ", chosen").ratio / results_.at(family).ratio;
  }

  // Of rank 2, chosen: how far its loss is below that of uniform ranks of as few bytes, on a line over the logarithm of
  // bytes through ranks 1 and 2.
  double BelowUniformLine() const {
    const LgrecoResult &one = results_.at("POWERSGD 1"), &two = results_.at("POWERSGD 2");
    const LgrecoResult& chosen = results_.at("POWERSGD 2, chosen");
    const double at = std::log(chosen.ratio / two.ratio) / std::log(one.ratio / two.ratio);
    return two.loss + at * (one.loss - two.loss) - chosen.loss;
  }

  std::string TrainFile(int seed) const { return absl::StrCat(context_.dir, "/train-", seed, ".csv"); }

  absl::Status WriteFiles() const {
    OF_ASSIGN_OR_RETURN(const std::string text, HeaderText());
    const WordText words(text);
    words.WriteTestWindows(context_.dir + "/test.csv", kTestRows, 5);
    for (int seed = num_seeds_ + 1; seed <= num_seeds_ + kSeedsOfRound; ++seed) {
      words.WriteTrainWindows(TrainFile(seed), kLgrecoSteps * kLgrecoBatch, 100 + seed);
    }
    return absl::OkStatus();
  }

  static void AddToMean(LgrecoResult result, int seed, LgrecoResult& mean) {
    if (seed == 1) {
      mean = std::move(result);
      return;
    }
    const auto add = [seed](double value, double& to) { to += (value - to) / seed; };
    add(result.loss, mean.loss);
    add(result.choosing, mean.choosing);
    add(result.ratio, mean.ratio);
  }

  absl::StatusOr<LgrecoResult> Train(const LgrecoRun& run, int seed) {
    const std::string graphs = absl::StrCat(context_.dir, "/graphs-", seed);
    OF_RETURN_IF_ERROR(WriteNextWordGraphs(context_.ops, graphs, {TrainFile(seed), kLgrecoBatch},
                                           {context_.dir + "/test.csv", kTestBatch}));
    std::string config = absl::StrCat(
        "name: 'edges-lgreco' seed: ", seed, " model { graph: '", graphs, "' } mesh { dp: ", kLgrecoRanks,
        " } train { steps: ", kLgrecoSteps, " batch_size: ", kLgrecoBatch,
        " optimizer { sgd { momentum: 0.9 } } schedule { learning_rate: 0.1 kind: 'piecewise' warmup_steps: 100 "
        "boundaries: [1200, 1700] factors: [0.3, 0.09] } } evaluate { batches: ",
        kTestRows / kTestBatch, " } ");
    if (*run.compress != '\0') {
      absl::StrAppend(&config, "compress { ", run.compress, " warmup_steps: ", kLgrecoExactSteps, " }");
    }
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "(edges-lgreco)"));
    sourced.config.mutable_cluster()->set_cores_per_process(std::max(1, context_.cores));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, context_.ops));
    OF_RETURN_IF_ERROR(CompleteSpec(job, context_.ops));
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(job.spec, context_.stop));
    return ResultOf(job, events);
  }

  absl::StatusOr<LgrecoResult> ResultOf(const Job& job, const std::vector<pb::JobEvent>& events) const {
    LgrecoResult result;
    for (const pb::JobEvent& event : events) {
      const pb::FetchedValue& value = event.fetched();
      if (value.plan() == kChoicePlan) result.counts[value.name()].push_back(value.values(0));
    }
    OF_ASSIGN_OR_RETURN(result.loss, MeanOfEvaluation(events));
    result.choosing = ChoosingShare(events);
    if (!job.options.compress.has_value()) return result;
    OF_ASSIGN_OR_RETURN(result.ratio, RatioOf(job, result.counts));
    return result;
  }

  // What the steps behind choices take more than the median step, of the time of all.
  static double ChoosingShare(const std::vector<pb::JobEvent>& events) {
    std::map<int64_t, int64_t> ended_us;  // by step
    std::vector<int64_t> choices;
    for (const pb::JobEvent& event : events) {
      const pb::FetchedValue& value = event.fetched();
      if (value.plan() == "train" && value.name() == "loss") ended_us[value.step()] = event.time_us();
      if (value.plan() == kChoicePlan && value.name() == "embedding") choices.push_back(value.step());
    }
    std::vector<int64_t> steps;
    for (auto it = ended_us.begin(); it != ended_us.end() && std::next(it) != ended_us.end(); ++it) {
      steps.push_back(std::next(it)->second - it->second);
    }
    if (steps.empty() || choices.empty()) return 0;
    std::nth_element(steps.begin(), steps.begin() + static_cast<int64_t>(steps.size() / 2), steps.end());
    const int64_t usual = steps[steps.size() / 2];
    int64_t more = 0;
    for (const int64_t step : choices) {
      const auto last = ended_us.find(step), next = ended_us.find(step + 1);
      if (last != ended_us.end() && next != ended_us.end()) more += next->second - last->second - usual;
    }
    return static_cast<double>(more) / static_cast<double>(choices.size()) / (200 * static_cast<double>(usual));
  }

  // Of counts that are chosen every 200 steps behind the exact ones.
  absl::StatusOr<double> RatioOf(const Job& job, const std::map<std::string, std::vector<double>>& chosen) const {
    const CompressOptions& options = *job.options.compress;
    OF_ASSIGN_OR_RETURN(const Codec* const codec, FindCodec(options.codec));
    const Coding coding(options, *codec, kLgrecoRanks);
    double whole = 0, sent = 0;
    const Graph& graph = job.program.front();
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (!context_.ops.Is(node.op, OpKind::kVariable)) continue;
      const Shape& shape = graph.value(node.outputs[0]).type.shape;
      if (shape.rank() < 2) continue;
      const double n = static_cast<double>(shape[0]), m = static_cast<double>(shape[1]);
      for (int64_t step = 0; step < kLgrecoSteps - kLgrecoExactSteps; ++step) {
        whole += 4 * n * m;
        const auto counts = chosen.find(node.name);
        const auto choice = static_cast<size_t>(step / 200);
        if (counts == chosen.end() || choice == 0) {
          sent += codec->bytes(n, m, kLgrecoRanks, coding.OptionsOf(node.name));
        } else {
          const CodeCounts candidates = coding.CountsOf(node.name, shape);
          const auto it = std::find(candidates.counts.begin(), candidates.counts.end(),
                                    static_cast<int64_t>(counts->second.at(choice - 1)));
          if (it == candidates.counts.end()) return absl::InternalError("what was chosen is no candidate");
          sent += candidates.bytes[static_cast<size_t>(it - candidates.counts.begin())];
        }
      }
    }
    return whole / sent;
  }

  const BenchContext& context_;
  int num_seeds_ = 0;                            // that have been trained with: each round takes others
  std::map<std::string, LgrecoResult> results_;  // means of them
};

}  // namespace

std::unique_ptr<BenchCase> MakeEdgesLgrecoCase(const BenchContext& context) {
  return std::make_unique<EdgesLgrecoCase>(context);
}

}  // namespace oneflow
