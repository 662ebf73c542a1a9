// The models of text that the engine and PyTorch train: GPT-2 124M and 1.5B, the quickstart's GPT, a Llama, and BERT.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/bench/against_pytorch.h"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/run_job.h"
#include "tools/job/attributes.h"

namespace oneflow {
namespace {

struct GptContest {
  OwnGpt model;
  int warmup, steps;  // where the command line says nothing
  std::vector<TrainingLayout> layouts;
  std::vector<std::string> modes = {"eager", "compile"};  // of PyTorch
};

absl::StatusOr<SourcedConfig> ConfigOf(const GptContest& gpt, bool bf16, const TrainingLayout& layout,
                                       const BenchContext& context) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config,
                      OwnConfig(TextOf(gpt.model), absl::StrCat("(", gpt.model.name, ")"), layout.processes, context));
  pb::JobConfig& job = config.config;
  if (bf16) job.mutable_precision()->set_compute(pb::Precision::BF16);
  job.mutable_mesh()->set_pp(layout.pp);
  job.mutable_mesh()->set_dp(layout.dp);
  job.mutable_mesh()->set_tp(layout.tp);
  job.mutable_cluster()->set_processes(layout.processes);
  job.mutable_train()->set_micro_batches(layout.micro_batches);
  job.mutable_train()->set_steps(context.asked_warmup.value_or(gpt.warmup) + context.asked_steps.value_or(gpt.steps));
  return config;
}

std::string TitleOf(const GptContest& gpt, const pb::JobConfig& job, bool bf16) {
  const AttrMap model = AttributesOfKind(job.model());
  return absl::StrCat(gpt.model.name, bf16 ? "-bf16" : "", ": ", gpt.model.kind, " of ", model.Int("layers"),
                      " layers, width ", model.Int("width"), ", ", model.Int("heads"), " heads, context ",
                      model.Int("context"), ", batch ", job.train().batch_size(), ", products in ",
                      bf16 ? "bf16" : "f32");
}

std::unique_ptr<BenchCase> MakeGptContest(GptContest gpt, bool bf16, const BenchContext& context) {
  const auto make_model = [gpt = std::move(gpt), bf16, &context]() -> absl::StatusOr<TrainedModel> {
    OF_ASSIGN_OR_RETURN(const SourcedConfig config, ConfigOf(gpt, bf16, {}, context));
    const pb::JobConfig& job = config.config;
    TrainedModel model{.title = TitleOf(gpt, job, bf16),
                       .unit = "tokens",
                       .per_step = static_cast<double>(job.train().batch_size()) *
                                   static_cast<double>(AttributesOfKind(job.model()).Int("context")),
                       .pytorch = PyTorchTextModel(job),
                       .modes = gpt.modes,
                       .warmup = context.asked_warmup.value_or(gpt.warmup),
                       .steps = context.asked_steps.value_or(gpt.steps),
                       .layouts = gpt.layouts};
    model.make_job = [gpt, bf16, &context](const TrainingLayout& layout) -> absl::StatusOr<Job> {
      OF_ASSIGN_OR_RETURN(SourcedConfig own, ConfigOf(gpt, bf16, layout, context));
      return MakeJob(std::move(own), JobKind::kTrain, context.ops);
    };
    model.batches = [](const Job& made, int steps) { return TextBatches(made.config.config, steps); };
    return model;
  };
  return MakeContestCase(context, make_model);
}

GptContest Gpt2() { return {kGpt2Model, 2, 5, {}}; }
GptContest Llama() { return {kLlamaModel, 2, 5, {}}; }
GptContest Bert() { return {kBertModel, 2, 5, {}}; }
// One layer is compiled, for all of them: 48 one by one would take minutes.
GptContest Gpt2Large() { return {kGpt2LargeModel, 2, 5, {}, {"eager", "compile-layers"}}; }
GptContest Quickstart() {
  return {kQuickstartModel,
          5,
          20,
          {{"dp2-tp2", "dp2 x tp2, 2 processes x 2", 1, 2, 2, 2, 1},
           {"pp2-dp2", "pp2 x dp2, 8 micro-batches", 2, 2, 1, 2, 8}}};
}

}  // namespace

std::unique_ptr<BenchCase> MakeGpt2Case(const BenchContext& context) {
  return MakeGptContest(Gpt2(), /*bf16=*/false, context);
}
std::unique_ptr<BenchCase> MakeGpt2Bf16Case(const BenchContext& context) {
  return MakeGptContest(Gpt2(), /*bf16=*/true, context);
}
std::unique_ptr<BenchCase> MakeGpt2LargeBf16Case(const BenchContext& context) {
  return MakeGptContest(Gpt2Large(), /*bf16=*/true, context);
}
std::unique_ptr<BenchCase> MakeLlamaCase(const BenchContext& context) {
  return MakeGptContest(Llama(), /*bf16=*/false, context);
}
std::unique_ptr<BenchCase> MakeLlamaBf16Case(const BenchContext& context) {
  return MakeGptContest(Llama(), /*bf16=*/true, context);
}
std::unique_ptr<BenchCase> MakeBertCase(const BenchContext& context) {
  return MakeGptContest(Bert(), /*bf16=*/false, context);
}
std::unique_ptr<BenchCase> MakeQuickstartCase(const BenchContext& context) {
  return MakeGptContest(Quickstart(), /*bf16=*/false, context);
}
std::unique_ptr<BenchCase> MakeQuickstartBf16Case(const BenchContext& context) {
  return MakeGptContest(Quickstart(), /*bf16=*/true, context);
}

}  // namespace oneflow
