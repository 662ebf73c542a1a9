#include "tools/bench/context.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/functional.h"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/run_job.h"

namespace oneflow {
namespace {

constexpr int kContextProcesses = 4;
constexpr int64_t kTokens[] = {4096, 8192};
constexpr int64_t kContextHeads = 4, kContextWidth = 256;
constexpr int kContextWarmup = 1, kContextSteps = 3;  // unless the command line says otherwise
constexpr int kPasses = 3;                            // of all ways in a round, of which the fastest one counts
constexpr double kSameContextLoss = 1e-4;             // of the mean of a product with random numbers

struct ContextWay {
  const char* name;
  int processes;
  std::vector<const char*> fields;  // of the job
};
constexpr char kTwoAxes[] =
    "mesh={axes{name:'outer' size:2 role:'sequence'} axes{name:'inner' size:2 role:'sequence'}}";
const std::vector<ContextWay>& Ways() {
  static const auto* const ways =
      new std::vector<ContextWay>{{"one process", 1, {}},
                                  {"ring", kContextProcesses, {"mesh={cp:4}", "sequence.attention=ring"}},
                                  {"all-to-all", kContextProcesses, {"mesh={cp:4}", "sequence.attention=all-to-all"}},
                                  {"both", kContextProcesses, {kTwoAxes, "sequence.attention=both"}},
                                  {"by cost", kContextProcesses, {"mesh={cp:4}"}}};
  return *ways;
}

// The mean of what queries read, weighed by numbers that are given.
absl::StatusOr<Graph> AttentionGraph(int64_t tokens, const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const TensorType type = {DType::kFloat32, {1, tokens, kContextWidth}};
  const SbpHint by_tokens = {{"cp", Sbp::Split(1)}};
  const auto made = [&](const char* name) {
    return Scale(b.Variable(name, type, "normal(1)", by_tokens), 0.5).To(by_tokens);
  };
  const Tensor out = Attention(made("q"), made("k"), made("v"), kContextHeads, /*causal=*/true);
  const Tensor loss = ReduceMean(Mul(out, b.Variable("given", type, "normal(1)", by_tokens, /*trainable=*/false)));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

// By tokens and way: seconds of a step, in the fastest pass.
using ContextRound = std::map<std::pair<int64_t, std::string>, double>;

class ContextCase : public BenchCase {
 public:
  explicit ContextCase(const BenchContext& context)
      : context_(context),
        warmup_(context.asked_warmup.value_or(kContextWarmup)),
        steps_(context.asked_steps.value_or(kContextSteps)) {}

  absl::StatusOr<std::string> RunRound() override {
    ContextRound round;
    for (const int64_t tokens : kTokens) {
      for (int pass = 0; pass < kPasses; ++pass) {
        OF_RETURN_IF_ERROR(RunWays(tokens, round));
        if (!context_.pytorch.empty()) OF_RETURN_IF_ERROR(RunPeers(tokens, round));
      }
    }
    rounds_.push_back(std::move(round));
    return absl::StrFormat("ring %5.3f s", rounds_.back().at({kTokens[0], "ring"}));
  }

  // The ideal: what one process takes, divided among the cores.
  std::string Text() const override {
    const double cores = std::min(context_.cores, kContextProcesses);
    std::string text = absl::StrFormat(
        "context: causal attention and its gradient, %d heads of %d columns, f32; %d processes on %d cores\n",
        kContextHeads, kContextWidth / kContextHeads, kContextProcesses, context_.cores);
    for (const int64_t tokens : kTokens) {
      absl::StrAppendFormat(&text, "  %-22s step s (least..most)  of the ideal\n", absl::StrCat(tokens, " tokens"));
      for (const std::string& way : ways_) {
        const Summary step = SummaryOf(rounds_, [&](const ContextRound& r) { return r.at({tokens, way}); });
        const double ideal = MedianAgainst(tokens, way, Ways()[0].name) * cores;
        absl::StrAppendFormat(&text, "  %-18s %8.4f (%.4f..%.4f)", way, step.median, step.least, step.most);
        absl::StrAppendFormat(&text, way == Ways()[0].name ? "\n" : " %13.2f\n", ideal);
      }
      for (const std::string& way : ways_) {
        if (way.rfind("PyTorch", 0) != 0) continue;
        absl::StrAppendFormat(&text, "  ring beside %s: %.2f x as fast, by cost: %.2f x\n", way,
                              MedianAgainst(tokens, way, "ring"), MedianAgainst(tokens, way, "by cost"));
      }
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const ContextRound& round : rounds_) {
      nlohmann::json& of = json.emplace_back();
      for (const auto& [what, seconds] : round) of[absl::StrCat(what.first)][what.second] = seconds;
    }
    return json;
  }

 private:
  absl::Status RunWays(int64_t tokens, ContextRound& round) {
    std::optional<double> expected;
    for (const ContextWay& way : Ways()) {
      OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(tokens, " tokens, ", way.name)));
      OF_ASSIGN_OR_RETURN(const Round run, RunWay(tokens, way));
      const double loss = run.losses.back();
      if (!expected.has_value()) expected = loss;
      if (!(std::abs(loss - *expected) <= kSameContextLoss * std::abs(*expected))) {
        return absl::InternalError(absl::StrCat("context: ", tokens, " tokens, ", way.name, ": the last loss is ", loss,
                                                ", that of one process ", *expected));
      }
      Take(tokens, way.name, run.step_seconds, round);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Round> RunWay(int64_t tokens, const ContextWay& way) const {
    BenchContext context(context_);
    context.warmup = warmup_;
    context.steps = steps_;
    OF_ASSIGN_OR_RETURN(SourcedConfig config,
                        OwnConfig("name: 'context' model { gpt { layers: 1 width: 8 heads: 1 context: 8 } } data { "
                                  "text { path: '' } } train { batch_size: 1 optimizer { sgd {} "
                                  "} schedule { learning_rate: 1 } }",
                                  "(context)", std::max(way.processes, context.cores), context));
    config.config.mutable_cluster()->set_processes(way.processes);
    for (const char* const field : way.fields) OF_RETURN_IF_ERROR(ApplyOverride(field, config));
    OF_ASSIGN_OR_RETURN(Graph graph, AttentionGraph(tokens, context.ops));
    Program program;
    program.push_back(std::move(graph));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), std::move(program)));
    OF_RETURN_IF_ERROR(CompleteSpec(job, context.ops));
    job.spec.clear_phases();
    AddMeasuredPhases(warmup_, steps_, job.spec);
    return RunJob(job.spec, /*profile=*/false, context.stop);
  }

  absl::Status RunPeers(int64_t tokens, ContextRound& round) {
    for (const char* const rotation : {"alltoall", "allgather"}) {
      const std::string name = absl::StrCat("PyTorch ", rotation);
      OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(tokens, " tokens, ", name)));
      const nlohmann::json request = {{"processes", kContextProcesses},
                                      {"rotation", rotation},
                                      {"tokens", tokens},
                                      {"heads", kContextHeads},
                                      {"width", kContextWidth / kContextHeads},
                                      {"warmup", warmup_},
                                      {"steps", steps_}};
      OF_ASSIGN_OR_RETURN(const std::optional<nlohmann::json> told, AskPyTorch(context_, "pytorch_ring", request));
      if (!told.has_value()) {
        return absl::UnavailableError(absl::StrCat("'", context_.pytorch, "' has no PyTorch"));
      }
      Take(tokens, name, told->at("seconds"), round);
    }
    return absl::OkStatus();
  }

  void Take(int64_t tokens, const std::string& way, double seconds, ContextRound& round) {
    if (std::find(ways_.begin(), ways_.end(), way) == ways_.end()) ways_.push_back(way);
    const auto [least, is_first] = round.try_emplace({tokens, way}, seconds);
    if (!is_first) least->second = std::min(least->second, seconds);
  }

  // The median of the ratios of rounds.
  double MedianAgainst(int64_t tokens, const std::string& way, const std::string& other) const {
    return SummaryOf(rounds_,
                     [&](const ContextRound& r) {
                       return r.at({tokens, way}) / r.at({tokens, other});
                     })
        .median;
  }

  const BenchContext& context_;
  const int warmup_, steps_;
  std::vector<std::string> ways_;  // in the order in which they run
  std::vector<ContextRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeContextCase(const BenchContext& context) {
  return std::make_unique<ContextCase>(context);
}

}  // namespace oneflow
