#include "tools/worker/train_loop.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// How long a run between two looks should take, and how many steps it has at least: in its first one nothing is read
// ahead.
constexpr double kRunSeconds = 2;
constexpr int64_t kLeastSteps = 4;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The next multiple of `every` after `step`; `step` at the earliest.
int64_t NextMultiple(int64_t step, int64_t every) { return (step / every + 1) * every; }

// After how many steps training ends at the latest: all, or those that have so many samples.
int64_t LastStep(const pb::TrainLoop& loop, int64_t samples_per_step) {
  const int64_t samples = loop.stop().samples();
  if (samples <= 0 || samples_per_step <= 0) return loop.steps();
  return std::min(loop.steps(), samples / samples_per_step + (samples % samples_per_step > 0));
}

absl::StatusOr<std::vector<pb::LoopNote>> Exchange(Engine& engine, const pb::LoopNote& mine) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> texts, engine.Exchange(mine.SerializeAsString()));
  std::vector<pb::LoopNote> notes(texts.size());
  for (size_t process = 0; process < texts.size(); ++process) {
    if (notes[process].ParseFromString(texts[process])) continue;
    return absl::InternalError(absl::StrCat("process ", process, " says ", texts[process].size(), " odd bytes"));
  }
  return notes;
}

}  // namespace

TrainLoop::TrainLoop(Engine& engine, const pb::JobSpec& spec, const pb::TrainLoop& loop, const WorkerContext& context,
                     Checkpoints* checkpoints, std::function<void(const pb::Phase&)> on_done)
    : engine_(engine),
      spec_(spec),
      loop_(loop),
      context_(context),
      checkpoints_(checkpoints),
      on_done_(std::move(on_done)),
      last_step_(LastStep(loop, spec.samples_per_step())) {}

absl::Status TrainLoop::Run(int64_t first_step) {
  step_ = evaluated_step_ = first_step;
  while (!IsOver()) {
    OF_RETURN_IF_ERROR(RunTo(NextStation()));
    if (asked_to_stop_) break;
    OF_RETURN_IF_ERROR(ShareHistograms());
    const bool every = loop_.evaluate_every() > 0 && step_ % loop_.evaluate_every() == 0;
    if (loop_.has_evaluation() && (every || IsOver())) OF_RETURN_IF_ERROR(Evaluate());
    if (checkpoints_ == nullptr || IsOver()) continue;
    if (spec_.checkpoint().every() > 0 && step_ % spec_.checkpoint().every() == 0) OF_RETURN_IF_ERROR(Save());
  }
  const bool wanted = !asked_to_stop_ || spec_.checkpoint().on_stop();
  if (checkpoints_ != nullptr && wanted && step_ > checkpoints_->last_step()) return Save();
  return absl::OkStatus();
}

bool TrainLoop::IsOver() const { return over_ || step_ >= last_step_; }

int64_t TrainLoop::NextStation() const {
  int64_t next = last_step_;
  if (loop_.has_evaluation() && loop_.evaluate_every() > 0) {
    next = std::min(next, NextMultiple(step_, loop_.evaluate_every()));
  }
  if (checkpoints_ != nullptr && spec_.checkpoint().every() > 0) {
    next = std::min(next, NextMultiple(step_, spec_.checkpoint().every()));
  }
  if (const int64_t every = spec_.tensorboard_histograms_every(); context_.summaries != nullptr && every > 0) {
    next = std::min(next, NextMultiple(step_, every));
  }
  return next;
}

absl::Status TrainLoop::RunTo(int64_t station) {
  const int64_t from = step_;
  while (!over_ && step_ < station) {
    const int64_t steps = std::min(next_steps_, station - step_);
    const auto begin = std::chrono::steady_clock::now();
    OF_RETURN_IF_ERROR(engine_.Run(loop_.plan(), step_, steps));
    step_ += steps;
    const double seconds = SecondsSince(begin);
    if (context_.summaries != nullptr) {
      context_.summaries->ObserveSpeed(step_ - 1, steps, seconds);
      OF_RETURN_IF_ERROR(context_.summaries->Share(engine_));
    }
    if (context_.on_look) context_.on_look();
    OF_RETURN_IF_ERROR(Look(seconds, steps));
  }
  pb::Phase done;
  done.mutable_run()->set_plan(loop_.plan());
  done.mutable_run()->set_first_step(from);
  done.mutable_run()->set_steps(step_ - from);
  on_done_(done);
  return absl::OkStatus();
}

pb::LoopNote TrainLoop::MyNote(double seconds, int64_t steps) {
  pb::LoopNote note;
  const pb::StopRule& rule = loop_.stop();
  note.set_skip_rest(context_.stop != nullptr && *context_.stop);
  note.set_stop(note.skip_rest() || (rule.seconds() > 0 && SecondsSince(begin_) >= rule.seconds()));
  const double step_seconds = std::max(seconds / static_cast<double>(steps), 1e-6);
  // The first run is of one step, which is no measure: not more than twice as many each time.
  note.set_next_steps(
      std::clamp(static_cast<int64_t>(kRunSeconds / step_seconds), kLeastSteps, std::max(kLeastSteps, 2 * steps)));
  const auto broken = context_.losses == nullptr ? std::nullopt : context_.losses->TakeBroken();
  if (broken && rule.not_finite()) {
    note.set_broken_step(broken->first);
    note.set_broken_loss(broken->second);
  }
  if (checkpoints_ != nullptr) checkpoints_->Tell(note);
  return note;
}

absl::Status TrainLoop::Look(double seconds, int64_t steps) {
  OF_ASSIGN_OR_RETURN(const std::vector<pb::LoopNote> notes, Exchange(engine_, MyNote(seconds, steps)));
  next_steps_ = std::max<int64_t>(1, notes[0].next_steps());
  for (const pb::LoopNote& note : notes) {
    if (checkpoints_ != nullptr) checkpoints_->Hear(note);
    if (note.has_broken_step()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the loss of step ", note.broken_step() + 1, " is ", note.broken_loss(),
                       ": nothing of it is saved; train.stop { finite: false } goes on nevertheless"));
    }
    over_ |= note.stop();
    asked_to_stop_ |= note.skip_rest();
  }
  return absl::OkStatus();
}

absl::Status TrainLoop::Evaluate() {
  const pb::RunPlan& run = loop_.evaluation();
  if (evaluated_step_ == step_) return absl::OkStatus();
  evaluated_step_ = step_;
  OF_RETURN_IF_ERROR(engine_.Run(run.plan(), run.first_step(), run.steps()));
  if (context_.summaries != nullptr) OF_RETURN_IF_ERROR(context_.summaries->Share(engine_));
  pb::Phase done;
  *done.mutable_run() = run;
  on_done_(done);
  return loop_.stop().patience() > 0 ? LookAtEvaluation() : absl::OkStatus();
}

absl::Status TrainLoop::LookAtEvaluation() {
  pb::LoopNote mine;
  if (context_.losses != nullptr) {
    const auto [sum, count] = context_.losses->TakeSum(loop_.evaluation().plan());
    mine.set_evaluation_sum(sum);
    mine.set_evaluation_count(count);
  }
  OF_ASSIGN_OR_RETURN(const std::vector<pb::LoopNote> notes, Exchange(engine_, mine));
  double sum = 0;
  int64_t count = 0;
  for (const pb::LoopNote& note : notes) {
    sum += note.evaluation_sum();
    count += note.evaluation_count();
  }
  if (count == 0) return absl::OkStatus();
  const double loss = sum / static_cast<double>(count);
  const bool better = evaluations_++ == 0 || loss < lowest_loss_ - loop_.stop().least_gain();
  if (better) lowest_loss_ = loss;
  fruitless_ = better ? 0 : fruitless_ + 1;
  over_ |= fruitless_ >= loop_.stop().patience();
  return absl::OkStatus();
}

absl::Status TrainLoop::ShareHistograms() {
  const int64_t every = spec_.tensorboard_histograms_every();
  if (context_.summaries == nullptr || every <= 0 || step_ % every != 0) return absl::OkStatus();
  return context_.summaries->ShareHistograms(engine_);
}

absl::Status TrainLoop::Save() { return checkpoints_->Save(step_); }

}  // namespace oneflow
