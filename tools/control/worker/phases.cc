#include "tools/control/worker/phases.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/output_file.h"
#include "tools/control/worker/checkpoints.h"
#include "tools/control/worker/rest.h"
#include "tools/control/worker/train_loop.h"

namespace oneflow {
namespace {

class Phases {
 public:
  Phases(Engine& engine, const pb::JobSpec& spec, const WorkerContext& context)
      : engine_(engine), spec_(spec), context_(context) {}

  absl::Status Run() {
    OF_RETURN_IF_ERROR(Begin());
    for (int i = 0; i < spec_.phases_size() && !stopped_; ++i) {
      OF_RETURN_IF_ERROR(RunPhase(spec_.phases(i)));
    }
    return checkpoints_ == nullptr ? absl::OkStatus() : checkpoints_->Finish();
  }

 private:
  absl::Status Begin() {
    if (spec_.has_checkpoint()) {
      OF_ASSIGN_OR_RETURN(checkpoints_, Checkpoints::Open(engine_, spec_, context_));
      if (spec_.resume() || !spec_.resume_from().empty() || !context_.first_attempt) {
        OF_ASSIGN_OR_RETURN_AT(begin_, checkpoints_->Resume(), "checkpoint.path");
      }
    }
    if (context_.summaries != nullptr)
      OF_RETURN_IF_ERROR(context_.summaries->Begin(engine_, begin_.step, context_.attempt));
    if (spec_.weights().empty() || begin_.step > 0) return absl::OkStatus();
    return Annotate(engine_.LoadWeights(spec_.weights()), "loading weights");
  }

  absl::Status RunPhase(const pb::Phase& phase) {
    switch (phase.kind_case()) {
      case pb::Phase::kTrain:
        return Train(phase.train());
      case pb::Phase::kRun:
        OF_RETURN_IF_ERROR_AT(RunWithRest(engine_, phase.run()), phase.run().plan());
        if (context_.summaries != nullptr) OF_RETURN_IF_ERROR(context_.summaries->Share(engine_));
        break;
      case pb::Phase::kSave:
        if (begin_.step > 0 && !trained_) return absl::OkStatus();  // what an earlier attempt saved before training
        OF_RETURN_IF_ERROR_AT(SaveWeights(phase.save()), "saving weights");
        break;
      case pb::Phase::kTrace:
        OF_RETURN_IF_ERROR_AT(engine_.SaveTrace(phase.trace().path()), "saving the trace");
        break;
      case pb::Phase::KIND_NOT_SET:
        return absl::InvalidArgumentError("a part of the job says neither what to run nor what to save");
    }
    OnDone(phase);
    return absl::OkStatus();
  }

  // A link may have been put where the file goes since the job was made.
  absl::Status SaveWeights(const pb::SaveWeights& save) {
    OF_ASSIGN_OR_RETURN(const std::string file, FileToReplace(save.path()));
    return engine_.SaveWeights(file, save.suffix());
  }

  absl::Status Train(const pb::TrainLoop& rule) {
    TrainLoop loop(engine_, spec_, rule, context_, checkpoints_.get(), [this](const pb::Phase& done) { OnDone(done); });
    OF_RETURN_IF_ERROR(loop.Run(begin_));
    trained_ = true;
    stopped_ = loop.asked_to_stop();
    return absl::OkStatus();
  }

  void OnDone(const pb::Phase& done) {
    if (context_.on_done) context_.on_done(parts_, done);
    ++parts_;
  }

  Engine& engine_;
  const pb::JobSpec& spec_;
  const WorkerContext& context_;
  std::unique_ptr<Checkpoints> checkpoints_;  // null: the job has none
  Checkpoints::Begin begin_;
  int parts_ = 0;
  bool trained_ = false, stopped_ = false;
};

}  // namespace

absl::Status RunPhases(Engine& engine, const pb::JobSpec& spec, const WorkerContext& context) {
  return Phases(engine, spec, context).Run();
}

}  // namespace oneflow
