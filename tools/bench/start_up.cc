#include "tools/bench/start_up.h"

#include <time.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "actor/engine.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/models/gpt.h"
#include "proto/plan.pb.h"
#include "tools/bench/measurement.h"
#include "tools/job/kernel_scratch.h"

namespace oneflow {
namespace {

constexpr GptConfig kGpt2 = {
    .vocabulary = 50'257, .layers = 12, .width = 768, .heads = 12, .context = 256, .tied_embedding = true};
constexpr int64_t kSamples = 4;

// Of the processor, all threads together: a machine that does other things too would say little by the clock.
double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct StartUpRound {
  double plan_seconds = 0;  // from the model to a worker's program
  double bind_seconds = 0;  // what an engine takes to load it where variables begin as zeros
  double load_seconds = 0;  // and where they begin as the model says
  double values_seconds() const { return load_seconds - bind_seconds; }
};

class StartUpCase : public BenchCase {
 public:
  explicit StartUpCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    StartUpRound round;
    const double begin = ProcessorSeconds();
    OF_ASSIGN_OR_RETURN(const pb::Program program, Plan());
    round.plan_seconds = ProcessorSeconds() - begin;
    pb::Program zeros = program;
    for (pb::Variable& variable : *zeros.mutable_variables()) variable.set_init("zeros");
    CountValues(program);
    if (rounds_.empty()) OF_RETURN_IF_ERROR(Load(zeros).status());  // memory that nobody had yet takes longer
    OF_ASSIGN_OR_RETURN(round.bind_seconds, Load(std::move(zeros)));
    OF_ASSIGN_OR_RETURN(round.load_seconds, Load(program));
    rounds_.push_back(round);
    return absl::StrFormat("%6.2f s of values", round.values_seconds());
  }

  std::string Text() const override {
    const Summary plan = SummaryOf(rounds_, [](const StartUpRound& r) { return r.plan_seconds; });
    const Summary bind = SummaryOf(rounds_, [](const StartUpRound& r) { return r.bind_seconds; });
    const Summary values = SummaryOf(rounds_, [](const StartUpRound& r) { return r.values_seconds(); });
    const auto line = [](const char* what, const Summary& s) {
      return absl::StrFormat("  %-34s %6.2f s (%.2f..%.2f)\n", what, s.median, s.least, s.most);
    };
    return "start-up: GPT-2 124M on one device of one core, before its first step, by the processor's time\n" +
           line("model to plan and program", plan) + line("loading, with zeros for variables", bind) +
           line(absl::StrFormat("drawing %.1f M initial values", values_ / 1e6).c_str(), values);
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const StartUpRound& round : rounds_) {
      json.push_back({{"plan_seconds", round.plan_seconds},
                      {"bind_seconds", round.bind_seconds},
                      {"values_seconds", round.values_seconds()},
                      {"values", values_}});
    }
    return json;
  }

 private:
  absl::StatusOr<pb::Program> Plan() const {
    OF_ASSIGN_OR_RETURN(const std::vector<Graph> graphs, GptProgram(kGpt2, {.path = context_.sample_text},
                                                                    {.train = kSamples}, std::nullopt, context_.ops));
    CompileOptions options;
    options.job = "start-up";
    options.kernel_scratch = ScratchOfKernels(options.device, 1);
    options.optimizer.clip_norm = 1;
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, Compile(graphs, options, context_.ops));
    return ProgramOf(plan, std::nullopt, "");
  }

  absl::StatusOr<double> Load(pb::Program program) const {
    const double begin = ProcessorSeconds();
    OF_RETURN_IF_ERROR(Engine::Create(std::move(program), {}).status());
    return ProcessorSeconds() - begin;
  }

  void CountValues(const pb::Program& program) {
    values_ = 0;
    for (const pb::Variable& variable : program.variables()) {
      if (variable.init() == "zeros" || variable.init() == "ones") continue;
      int64_t count = 1;
      for (const int64_t dim : variable.dims()) count *= dim;
      values_ += static_cast<double>(count);
    }
  }

  const BenchContext& context_;
  std::vector<StartUpRound> rounds_;
  double values_ = 0;  // that are drawn
};

}  // namespace

std::unique_ptr<BenchCase> MakeStartUpCase(const BenchContext& context) {
  return std::make_unique<StartUpCase>(context);
}

}  // namespace oneflow
