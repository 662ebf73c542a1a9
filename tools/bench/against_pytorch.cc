#include "tools/bench/against_pytorch.h"

#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/bench/contest.h"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/run_job.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/control/process/write_file.h"
#include "tools/study/calibration/device.h"

namespace oneflow {
namespace {

constexpr TrainingLayout kOneDevice = {"one-device", "engine, 1 device"};

class ContestCase : public BenchCase {
 public:
  ContestCase(const BenchContext& context, std::function<absl::StatusOr<TrainedModel>()> make_model)
      : context_(context), make_model_(std::move(make_model)) {}

  absl::StatusOr<std::string> RunRound() override {
    if (jobs_.empty()) OF_RETURN_IF_ERROR(Prepare());
    OF_RETURN_IF_ERROR(RunEngine(jobs_[0], contest_.engine));
    for (size_t i = 0; i < contest_.layouts.size(); ++i)
      OF_RETURN_IF_ERROR(RunEngine(jobs_[i + 1], contest_.layouts[i]));
    for (Contender& peer : contest_.peers) OF_RETURN_IF_ERROR(RunPeer(peer));
    if (!profile_.has_value()) OF_RETURN_IF_ERROR(Profile());
    OF_RETURN_IF_ERROR(PriceSteps());
    return absl::StrFormat("\n  %.0f %s/s", model_.per_step / contest_.engine.rounds.back().step_seconds, model_.unit);
  }

  std::string Text() const override { return ContestText(contest_); }
  nlohmann::json Json() const override { return ContestJson(contest_); }

 private:
  absl::Status Prepare() {
    OF_ASSIGN_OR_RETURN(model_, make_model_());
    contest_ = {.title = model_.title,
                .unit = model_.unit,
                .per_step = model_.per_step,
                .cores = context_.cores,
                .warmup = model_.warmup,
                .steps = model_.steps,
                .engine = {.name = kOneDevice.name, .title = kOneDevice.title}};
    OF_RETURN_IF_ERROR_AT(AddJob(kOneDevice), kOneDevice.name);
    contest_.on_cuda = jobs_[0].spec.device() == "cuda";
    for (const TrainingLayout& layout : model_.layouts) {
      contest_.layouts.push_back({.name = layout.name, .title = absl::StrCat("engine, ", layout.title)});
      OF_RETURN_IF_ERROR_AT(AddJob(layout), layout.name);
    }
    if (context_.pytorch.empty()) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(const std::vector<std::string> modes, AskedModes());
    for (const std::string& mode : modes) {
      contest_.peers.push_back({.name = mode, .title = absl::StrCat("PyTorch, ", mode)});
    }
    OF_ASSIGN_OR_RETURN(const std::string batches, model_.batches(jobs_[0], model_.warmup + model_.steps));
    OF_RETURN_IF_ERROR(WriteFile("file", Batches(), batches));
    return SaveWeights();
  }

  // Those of the model that the command line names, or all.
  absl::StatusOr<std::vector<std::string>> AskedModes() const {
    if (context_.pytorch_modes.empty()) return model_.modes;
    std::vector<std::string> asked;
    for (const std::string& mode : model_.modes) {
      for (const absl::string_view name : absl::StrSplit(context_.pytorch_modes, ',')) {
        if (mode == name) asked.push_back(mode);
      }
    }
    if (!asked.empty()) return asked;
    return absl::InvalidArgumentError(absl::StrCat("--pytorch-modes ", context_.pytorch_modes, ": the modes are ",
                                                   absl::StrJoin(model_.modes, ", ")));
  }

  absl::Status AddJob(const TrainingLayout& layout) {
    OF_ASSIGN_OR_RETURN(Job job, model_.make_job(layout));
    OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, context_.ops));
    if (jobs_.empty()) plan_ = program.plans(0);
    job.spec.clear_phases();
    AddMeasuredPhases(model_.warmup, model_.steps, job.spec);
    jobs_.push_back(std::move(job));
    return absl::OkStatus();
  }

  // In a run of its own, so that it counts for no peak of memory.
  absl::Status SaveWeights() const {
    pb::JobSpec spec = jobs_[0].spec;
    spec.clear_phases();
    spec.add_phases()->mutable_save()->set_path(Weights());
    return RunToEnd(spec, context_.stop).status();
  }

  absl::Status RunEngine(const Job& job, Contender& contender) const {
    OF_RETURN_IF_ERROR(BeginPart(context_, contender.title));
    OF_ASSIGN_OR_RETURN_AT(Round round, RunJob(job.spec, /*profile=*/false, context_.stop), contender.name);
    if (contest_.on_cuda) round.counters.peak_bytes = round.counters.register_bytes;
    Told(round);
    contender.rounds.push_back(std::move(round));
    return absl::OkStatus();
  }

  absl::Status RunPeer(Contender& peer) const {
    if (!peer.cannot.empty()) return absl::OkStatus();
    OF_RETURN_IF_ERROR(BeginPart(context_, peer.title));
    const PyTorchCase pytorch{.python = context_.pytorch,
                              .script = context_.pytorch_script,
                              .dir = context_.dir,
                              .model = model_.pytorch,
                              .mode = peer.name,
                              .config = jobs_[0].config.config,
                              .weights = Weights(),
                              .batches = Batches(),
                              .warmup = model_.warmup,
                              .steps = model_.steps,
                              .threads = context_.cores};
    absl::StatusOr<PyTorchRound> ran = RunPyTorch(pytorch, contest_.engine.rounds.back().learning_rates, context_.stop);
    if (absl::IsUnavailable(ran.status()) || absl::IsUnimplemented(ran.status())) {
      peer.cannot = std::string(ran.status().message());
      std::cerr << peer.cannot;
      return absl::OkStatus();
    }
    OF_RETURN_IF_ERROR(ran.status());
    Told(ran->round);
    peer.title = ran->title;
    peer.rounds.push_back(std::move(ran->round));
    return absl::OkStatus();
  }

  absl::Status Profile() {
    OF_RETURN_IF_ERROR(BeginPart(context_, "engine, every kernel timed"));
    OF_ASSIGN_OR_RETURN(profile_, RunJob(jobs_[0].spec, /*profile=*/true, context_.stop));
    Told(*profile_);
    contest_.profiled_run_seconds = profile_->counters.run_seconds;
    contest_.profiled_kernel_seconds = profile_->counters.kernel_seconds;
    return absl::OkStatus();
  }

  // Rates are measured in every round: the best of them are nearest to what the machine can do.
  absl::Status PriceSteps() {
    OF_ASSIGN_OR_RETURN(const DeviceSpeeds rates,
                        PeakRates(contest_.on_cuda ? DeviceKind::kCuda : DeviceKind::kCpu, context_.cores));
    if (contest_.ops.empty()) contest_.rates = rates;
    KeepFaster(rates, contest_.rates);
    contest_.ops = OpTable(profile_->counters, WorkOfPlan(plan_, context_.ops, &contest_.rates));
    return absl::OkStatus();
  }

  static void Told(const Round& round) {
    std::cerr << absl::StrFormat("%9.4f s a step, %9.4f s of cpu", round.step_seconds, round.counters.cpu_seconds);
  }
  std::string File(const char* what) const {
    return absl::StrCat(context_.dir, "/", jobs_[0].config.config.name(), what);
  }
  std::string Weights() const { return File(".weights"); }
  std::string Batches() const { return File(".batches"); }

  const BenchContext& context_;
  const std::function<absl::StatusOr<TrainedModel>()> make_model_;
  TrainedModel model_;
  std::vector<Job> jobs_;  // on one device, then the layouts
  pb::Plan plan_;          // of the first
  std::optional<Round> profile_;
  Contest contest_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeContestCase(const BenchContext& context,
                                           std::function<absl::StatusOr<TrainedModel>()> make_model) {
  return std::make_unique<ContestCase>(context, std::move(make_model));
}

}  // namespace oneflow
