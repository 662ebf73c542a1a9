#include "tools/bench/loader_credits.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/trace/chrome_trace.h"
#include "compiler/lower/wait_graph.h"
#include "nlohmann/json.hpp"
#include "tools/bench/run_job.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"
#include "tools/study/planner/credits.h"
#include "tools/study/trace/summary.h"

namespace oneflow {
namespace {

constexpr int kSlots[] = {1, 2, 4};
// Computing takes now more, now less: were both equally long, steps would wait for whichever is slow just then.
constexpr double kReadPerCompute = 1.25;
constexpr char kLoaderConfig[] = R"(
name: "loader-credits"
model { gpt { layers: 2 width: 128 heads: 4 context: 128 } }
data { text { path: "" } }
train { steps: 2 batch_size: 16 optimizer { adamw {} } schedule { learning_rate: 1e-3 } }
)";

struct LoaderStep {
  double seconds = 0, period = 0;  // as it ran, and by the plan

  double ratio() const { return period / seconds; }
};

struct LoaderRound {
  double read_ms = 0;
  LoaderStep steps[std::size(kSlots)];
};

// The registers that are filled by reading.
std::vector<std::string> ReadRegisters(const pb::ClassPlan& plan) {
  std::vector<std::string> names;
  for (const pb::ClassRegister& reg : plan.registers()) {
    const auto& instructions = plan.actors(reg.producer()).instructions();
    const bool reads = std::any_of(instructions.begin(), instructions.end(),
                                   [](const pb::ClassInstruction& x) { return x.op() == "read_data"; });
    if (reads) names.push_back(reg.name());
  }
  return names;
}

class LoaderCreditsCase : public BenchCase {
 public:
  explicit LoaderCreditsCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    OF_ASSIGN_OR_RETURN(SourcedConfig config, OwnConfig(kLoaderConfig, "(loader-credits)", /*processes=*/1, context_));
    config.config.mutable_trace()->set_file(TraceFile());
    OF_ASSIGN_OR_RETURN(const LoaderStep computed, Measure(config, kSlots[1]));
    LoaderRound round;
    round.read_ms = kReadPerCompute * 1e3 * computed.seconds;
    config.config.mutable_data()->set_least_read_ms(std::min(round.read_ms, 1e4));
    for (size_t i = 0; i < std::size(kSlots); ++i) {
      OF_ASSIGN_OR_RETURN(round.steps[i], Measure(config, kSlots[i]));
    }
    rounds_.push_back(round);
    return absl::StrFormat("%9.3f of the time of one slot with two", round.steps[1].seconds / round.steps[0].seconds);
  }

  std::string Text() const override {
    const auto over = [&](auto value) {
      std::vector<double> values;
      for (const LoaderRound& round : rounds_) values.push_back(value(round));
      return Summarize(values);
    };
    std::string text =
        absl::StrFormat("loader-credits: a batch takes %.1f ms to read, %g times as long as to compute\n%s\n",
                        over([](const LoaderRound& x) { return x.read_ms; }).median, kReadPerCompute,
                        "  slots   ms a step   period of the plan   ratio (least..most)");
    for (size_t i = 0; i < std::size(kSlots); ++i) {
      const Summary ratio = over([i](const LoaderRound& x) { return x.steps[i].ratio(); });
      absl::StrAppendFormat(&text, "  %5d %11.2f %20.2f   %.3f (%.3f..%.3f)\n", kSlots[i],
                            1e3 * over([i](const LoaderRound& x) { return x.steps[i].seconds; }).median,
                            1e3 * over([i](const LoaderRound& x) { return x.steps[i].period; }).median, ratio.median,
                            ratio.least, ratio.most);
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const LoaderRound& round : rounds_) {
      nlohmann::json& item = json.emplace_back(nlohmann::json{{"read_ms", round.read_ms}});
      for (size_t i = 0; i < std::size(kSlots); ++i) {
        item["steps"].push_back(
            {{"slots", kSlots[i]}, {"seconds", round.steps[i].seconds}, {"period", round.steps[i].period}});
      }
    }
    return json;
  }

 private:
  std::string TraceFile() const { return context_.dir + "/loader-credits.json"; }

  absl::StatusOr<LoaderStep> Measure(const SourcedConfig& config, int slots) const {
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, context_.ops));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet by_credits, CompileJob(job, context_.ops));
    for (const std::string& reg : ReadRegisters(by_credits.plans(0))) job.options.slots["train"][reg] = slots;
    OF_ASSIGN_OR_RETURN(const pb::PlanSet set, CompileJob(job, context_.ops));
    OF_RETURN_IF_ERROR(RunToEnd(job.spec, context_.stop).status());
    OF_ASSIGN_OR_RETURN(const Trace trace, ReadChromeTrace(TraceFile()));
    OF_ASSIGN_OR_RETURN(const TraceSummary summary, Summarize(trace, "train"));
    OF_ASSIGN_OR_RETURN(const ActTimes times, MeasuredTimes(set, set.plans(0), trace));
    OF_ASSIGN_OR_RETURN(const WaitGraph graph, WaitGraphOf(set.plans(0)));
    // The mean: reading and fetching take turns on one queue, so steps may end in bursts, of which a median is any.
    const double seconds = summary.steps.seconds() / static_cast<double>(summary.steps.num_steps());
    return LoaderStep{seconds, BestPeriod(graph, times).seconds};
  }

  const BenchContext& context_;
  std::vector<LoaderRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeLoaderCreditsCase(const BenchContext& context) {
  return std::make_unique<LoaderCreditsCase>(context);
}

}  // namespace oneflow
