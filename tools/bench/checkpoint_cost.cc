#include "tools/bench/checkpoint_cost.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/run_job.h"
#include "tools/control/cluster/run_to_end.h"

namespace oneflow {
namespace {

constexpr int kUsualInterval = 20;

// From the loss after which a checkpoint is saved to the one after which the next would be.
struct TrainedInterval {
  double seconds = 0;
  std::optional<double> seconds_to_disk;  // until the checkpoint was whole there
  std::vector<double> losses;
};

struct CheckpointRound {
  TrainedInterval without, with;
  double cost() const { return with.seconds / without.seconds - 1; }
};

absl::StatusOr<TrainedInterval> IntervalFromEvents(const std::vector<pb::JobEvent>& events, int interval) {
  TrainedInterval trained;
  int64_t begin_us = 0, end_us = 0;
  for (const pb::JobEvent& event : events) {
    if (event.notice().saved_step() == interval) trained.seconds_to_disk = 1e-6 * (event.time_us() - begin_us);
    const pb::FetchedValue& value = event.fetched();
    if (!event.has_fetched() || value.name() != "loss" || value.values_size() != 1) continue;
    if (value.step() == interval - 1) begin_us = event.time_us();
    if (value.step() == 2 * interval - 1) end_us = event.time_us();
    trained.losses.push_back(value.values(0));
  }
  if (begin_us == 0 || end_us == 0) {
    return absl::InternalError(absl::StrCat("there is no loss of step ", interval, " or ", 2 * interval));
  }
  trained.seconds = 1e-6 * (end_us - begin_us);
  return trained;
}

class CheckpointCase : public BenchCase {
 public:
  explicit CheckpointCase(const BenchContext& context)
      : context_(context), interval_(context.asked_steps.value_or(kUsualInterval)) {}

  absl::StatusOr<std::string> RunRound() override {
    CheckpointRound round;
    OF_ASSIGN_OR_RETURN(round.without, Train(""));
    OF_ASSIGN_OR_RETURN(round.with, Train(context_.dir + "/checkpoints"));
    if (round.with.losses != round.without.losses) {
      return absl::InternalError("checkpoint: the losses are not those of a run without checkpoints");
    }
    if (!round.with.seconds_to_disk) return absl::InternalError("checkpoint: none was written");
    rounds_.push_back(std::move(round));
    return absl::StrFormat("%+9.1f %% time", 100 * rounds_.back().cost());
  }

  std::string Text() const override {
    std::vector<double> costs, to_disk, steps;
    for (const CheckpointRound& round : rounds_) {
      costs.push_back(100 * round.cost());
      to_disk.push_back(*round.with.seconds_to_disk);
      steps.push_back(round.without.seconds / interval_);
    }
    const Summary cost = Summarize(costs);
    return absl::StrFormat("checkpoint: GPT-2 124M, one every %d steps of %.2f s, beside none; same losses\n",
                           interval_, Median(steps)) +
           absl::StrFormat("  time of a step %+.1f %% (%+.1f..%+.1f), whole on the disk %.1f s after its step\n",
                           cost.median, cost.least, cost.most, Median(to_disk));
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const CheckpointRound& round : rounds_) {
      json.push_back({{"interval", interval_},
                      {"seconds_without", round.without.seconds},
                      {"seconds_with", round.with.seconds},
                      {"seconds_to_disk", *round.with.seconds_to_disk}});
    }
    return json;
  }

 private:
  // For two intervals: the first one warms up.
  absl::StatusOr<TrainedInterval> Train(const std::string& checkpoints) {
    OF_ASSIGN_OR_RETURN(SourcedConfig config, OwnConfig(TextOf(kGpt2Model), "(checkpoint)", /*processes=*/1, context_));
    config.config.mutable_train()->set_steps(2 * interval_);
    if (!checkpoints.empty()) {
      std::filesystem::remove_all(checkpoints);
      config.config.mutable_checkpoint()->set_path(checkpoints);
      config.config.mutable_checkpoint()->set_every(interval_);
      config.config.mutable_checkpoint()->set_keep(1);
    }
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(config, JobKind::kTrain, context_.ops));
    OF_RETURN_IF_ERROR(CompleteSpec(job, context_.ops));
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(job.spec, context_.stop));
    return IntervalFromEvents(events, interval_);
  }

  const BenchContext& context_;
  const int interval_;
  std::vector<CheckpointRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeCheckpointCase(const BenchContext& context) {
  return std::make_unique<CheckpointCase>(context);
}

}  // namespace oneflow
