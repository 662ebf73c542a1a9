#include "tools/control/worker/train_loop.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/finite.h"
#include "compiler/code_choices.h"
#include "compiler/local_training.h"
#include "compiler/points.h"
#include "oneflow_core/variable_role.h"
#include "tools/control/worker/agreement.h"
#include "tools/control/worker/rest.h"
#include "tools/job/points.h"

namespace oneflow {
namespace {

// How long a run between two looks should take, if that is more than its least steps.
constexpr double kRunSeconds = 2;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The next multiple of `every` after `step`; `step` at the earliest.
int64_t NextMultiple(int64_t step, int64_t every) { return (step / every + 1) * every; }

// The next multiple of `every` steps behind `step`, counted from `first` on; before that, `first`.
int64_t NextOf(int64_t step, int64_t first, int64_t every) {
  return step < first ? first : first + NextMultiple(step - first, every);
}

// Without the sign that a NaN may have.
std::string NumberText(double value) { return std::isnan(value) ? "nan" : absl::StrCat(value); }

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
      sizes_(spec) {}

// After how many steps training ends at the latest: all, or those that have so many samples.
int64_t TrainLoop::LastStep() const {
  const int64_t samples = loop_.stop().samples();
  if (samples <= 0 || spec_.samples_per_step() <= 0) return loop_.steps();
  const int64_t last = sizes_.StepAfter(first_step_, std::max<int64_t>(0, samples - state_.samples()));
  return last < loop_.steps() ? last : std::max(loop_.steps(), first_step_);
}

// Where a step reads follows from its number, as if all steps had been of its plan. Batches of other sizes before it
// have read more or less than that.
void TrainLoop::PlaceReaders() {
  for (const StepStage& stage : sizes_.stages()) {
    const int64_t begin = std::max(stage.begin, first_step_);
    const int64_t rows = state_.rows() + sizes_.Of(first_step_, begin).rows;
    engine_.ShiftRows(stage.plan, rows - begin * stage.size.rows);
    if (stage.plan != loop_.plan()) continue;
    const int64_t shift = rows - begin * stage.size.rows;
    if (loop_.has_choice()) engine_.ShiftRows(loop_.choice().plan(), shift);
    if (loop_.points().half()) engine_.ShiftRows(kHalfPlan, shift);
    if (loop_.points().anchors()) engine_.ShiftRows(kAnchorPlan, shift);
  }
}

absl::Status TrainLoop::Run(const Checkpoints::Begin& begin) {
  step_ = first_step_ = begin.step;
  state_ = begin.training;
  last_step_ = LastStep();
  PlaceReaders();
  OF_RETURN_IF_ERROR(MeetGroups());
  OF_RETURN_IF_ERROR(MeetAnchor());
  if (loop_.stop().patience() > 0 && state_.fruitless() >= loop_.stop().patience()) {
    End(PatienceText());
  }
  if (first_step_ > 0 && IsOver()) Notice(absl::StrCat("nothing is left to train: ", WhyOver()));
  OF_RETURN_IF_ERROR(RunToEnd());
  if (!asked_to_stop_) OF_RETURN_IF_ERROR(FinishRounds());
  if (loop_.stop().not_finite()) OF_RETURN_IF_ERROR(LookAtWeights());
  if (checkpoints_ == nullptr) return absl::OkStatus();
  const bool wanted = !asked_to_stop_ || spec_.checkpoint().on_stop();
  if (wanted && step_ > checkpoints_->last_step()) OF_RETURN_IF_ERROR(checkpoints_->Save(step_, State()));
  if (checkpoints_->last_step() != step_) return absl::OkStatus();
  checkpoints_->Confirm(step_);
  pb::TrainingState confirmed = State();
  confirmed.set_confirmed(true);
  checkpoints_->Amend(step_, confirmed);
  return absl::OkStatus();
}

absl::Status TrainLoop::RunToEnd() {
  // An attempt that ended between a checkpoint and the evaluation of its step left that to us.
  if (first_step_ > 0 && IsEvaluationDue()) OF_RETURN_IF_ERROR(AtStation());
  while (!IsOver()) {
    OF_RETURN_IF_ERROR(RunTo(NextStation()));
    if (asked_to_stop_) return absl::OkStatus();
    const bool by_samples = state_.ended().empty() && step_ >= last_step_ && step_ < loop_.steps();
    if (by_samples) Notice(absl::StrCat(kTrainingEnds, step_, ": ", WhyOver()));
    OF_RETURN_IF_ERROR(ShareHistograms());
    OF_RETURN_IF_ERROR(AtStation());
  }
  return absl::OkStatus();
}

absl::Status TrainLoop::AtStation() {
  const bool is_due = IsOver() || (spec_.checkpoint().every() > 0 && step_ % spec_.checkpoint().every() == 0);
  if (checkpoints_ != nullptr && is_due && step_ > checkpoints_->last_step()) {
    OF_RETURN_IF_ERROR(checkpoints_->Save(step_, State()));
  }
  if (!IsEvaluationDue()) return absl::OkStatus();
  if (IsOver()) OF_RETURN_IF_ERROR(FinishRounds());
  OF_RETURN_IF_ERROR(Evaluate());
  if (checkpoints_ == nullptr) return absl::OkStatus();
  const bool is_best = spec_.checkpoint().best() && state_.best_step() == step_;
  if (is_best && step_ > checkpoints_->last_step()) OF_RETURN_IF_ERROR(checkpoints_->Save(step_, State()));
  if (checkpoints_->last_step() == step_) checkpoints_->Amend(step_, State());
  return absl::OkStatus();
}

bool TrainLoop::IsEvaluationDue() const {
  return loop_.has_evaluation() && (IsRegularEvaluation() || IsOver()) && state_.evaluated_step() != step_;
}

pb::TrainingState TrainLoop::State() const {
  pb::TrainingState state = state_;
  const StepSize read = sizes_.Of(first_step_, step_);
  state.set_samples(state_.samples() + read.samples);
  state.set_rows(state_.rows() + read.rows);
  if (state.ended().empty() && step_ >= last_step_) state.set_ended(WhyOver());
  return state;
}

std::string TrainLoop::WhyOver() const {
  if (!state_.ended().empty()) return state_.ended();
  if (step_ < loop_.steps())
    return absl::StrCat(loop_.stop().samples(), " ", spec_.sample_unit(), " are done (train.stop.samples)");
  return absl::StrCat("all ", loop_.steps(), " steps are done");
}

std::string TrainLoop::PatienceText() const {
  return absl::StrCat(state_.fruitless(), " evaluations in a row found no lower loss than ", state_.lowest_loss(),
                      " (train.stop.patience)");
}

void TrainLoop::End(std::string why) {
  if (state_.ended().empty()) state_.set_ended(std::move(why));
}

void TrainLoop::Notice(const std::string& text) const {
  if (context_.process != 0 || !context_.on_notice) return;
  pb::Notice notice;
  notice.set_text(text);
  context_.on_notice(notice);
}

int64_t TrainLoop::NextStation() const {
  int64_t next = std::min(last_step_, sizes_.StageOf(step_).end);
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

// Steps, and what is done between them.
absl::Status TrainLoop::RunSteps(const std::string& plan, int64_t steps) {
  for (const int64_t end = step_ + steps; step_ < end;) {
    const Stretch stretch = NextStretch(plan, end);
    if (loop_.points().half()) OF_RETURN_IF_ERROR(engine_.Run(kHalfPlan, step_, 1));
    OF_RETURN_IF_ERROR(engine_.Run(stretch.plan, step_, stretch.end - step_));
    step_ = stretch.end;
    OF_RETURN_IF_ERROR(BetweenSteps());
  }
  return absl::OkStatus();
}

// Steps of one plan with nothing between them.
TrainLoop::Stretch TrainLoop::NextStretch(const std::string& plan, int64_t end) const {
  Stretch stretch = {plan, end};
  if (loop_.has_sync()) {
    stretch.end = std::min(stretch.end, NextOf(step_, loop_.sync().first_step(), loop_.sync().every()));
  }
  if (loop_.points().half()) stretch.end = std::min(stretch.end, step_ + 1);
  for (int64_t step = step_; loop_.points().anchors() && step < stretch.end; ++step) {
    if (MovesAnchor(loop_.points(), spec_.seed(), step)) stretch.end = step + 1;
  }
  const pb::ChoiceRule& rule = loop_.choice();
  if (!loop_.has_choice()) return stretch;
  if (step_ < rule.first_step()) {
    stretch.end = std::min(stretch.end, rule.first_step());
    return stretch;
  }
  const int64_t choice = NextOf(step_, rule.first_step(), rule.every()), window = choice - rule.window();
  stretch.end = std::min(stretch.end, step_ < window ? window : choice);
  if (step_ >= window) stretch.plan = rule.plan();
  return stretch;
}

absl::Status TrainLoop::BetweenSteps() {
  if (loop_.has_choice()) {
    const int64_t done = step_ - loop_.choice().first_step(), every = loop_.choice().every();
    if (done > 0 && done % every == 0) OF_RETURN_IF_ERROR(engine_.Run(kChoicePlan, step_ - 1, 1));
  }
  if (MovesAnchor(loop_.points(), spec_.seed(), step_ - 1)) OF_RETURN_IF_ERROR(engine_.Run(kAnchorPlan, step_ - 1, 1));
  if (!loop_.has_sync()) return absl::OkStatus();
  const int64_t done = step_ - loop_.sync().first_step();  // in rounds; of a negative number the steps before them
  if (done == 0) return BeginRounds();
  return done > 0 && done % loop_.sync().every() == 0 ? EndRound() : absl::OkStatus();
}

// What a checkpoint has of groups may be of a job that took their mean otherwise: then they begin anew, from the mean.
absl::Status TrainLoop::MeetGroups() {
  const bool had_groups = state_.has_groups(), was_late = state_.late_means();
  state_.set_has_groups(loop_.has_sync());
  state_.set_late_means(loop_.sync().late());
  if (!loop_.has_sync() || (had_groups && was_late == loop_.sync().late())) return absl::OkStatus();
  return had_groups ? BeginRounds() : engine_.Run(kBeginPlan, 0, 1);
}

// A job that takes gradients at an anchor begins with one.
absl::Status TrainLoop::MeetAnchor() {
  const bool had_anchor = state_.has_anchor();
  state_.set_has_anchor(loop_.points().anchors());
  if (!loop_.points().anchors() || had_anchor || IsOver()) return absl::OkStatus();
  return engine_.Run(kAnchorPlan, step_, 1);
}

// From the mean of what the groups have.
absl::Status TrainLoop::BeginRounds() {
  OF_RETURN_IF_ERROR(engine_.Run(kFinishPlan, 0, 1));
  return engine_.Run(kBeginPlan, 0, 1);
}

absl::Status TrainLoop::EndRound() {
  const int64_t round = (step_ - loop_.sync().first_step()) / loop_.sync().every();
  if (!loop_.sync().late()) {
    OF_RETURN_IF_ERROR(engine_.Run(kOuterPlan, round, 1));
    return engine_.Run(kAdoptPlan, round, 1);
  }
  OF_RETURN_IF_ERROR(engine_.WaitBeside());
  OF_RETURN_IF_ERROR(engine_.Run(kAdoptPlan, round, 1));
  return engine_.RunBeside(kOuterPlan, round, 1);
}

// The weights that others see become the groups' mean.
absl::Status TrainLoop::FinishRounds() {
  if (!loop_.has_sync() || finished_) return absl::OkStatus();
  OF_RETURN_IF_ERROR(engine_.WaitBeside());
  finished_ = true;
  return engine_.Run(kFinishPlan, 0, 1);
}

absl::Status TrainLoop::RunTo(int64_t station) {
  const int64_t from = step_;
  const std::string& plan = sizes_.StageOf(step_).plan;
  while (state_.ended().empty() && step_ < station) {
    const int64_t steps = std::min(next_steps_, station - step_);
    const auto begin = std::chrono::steady_clock::now();
    OF_RETURN_IF_ERROR(RunSteps(plan, steps));
    const double seconds = SecondsSince(begin);
    if (context_.summaries != nullptr) {
      context_.summaries->ObserveSpeed(step_ - 1, steps, seconds);
      OF_RETURN_IF_ERROR(context_.summaries->Share(engine_));
    }
    if (context_.on_look) context_.on_look();
    OF_RETURN_IF_ERROR(Look(seconds, steps));
  }
  OF_RETURN_IF_ERROR(engine_.WaitBeside());  // what is saved and evaluated is what follows from all rounds before
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
  note.set_stop(rule.seconds() > 0 && SecondsSince(begin_) >= rule.seconds());
  const double step_seconds = std::max(seconds / static_cast<double>(steps), 1e-6);
  // The first run is of one step, which is no measure: not more than twice as many each time.
  const int64_t least = std::max<int64_t>(1, loop_.least_steps());
  note.set_next_steps(std::clamp(static_cast<int64_t>(kRunSeconds / step_seconds), least, std::max(least, 2 * steps)));
  if (context_.losses != nullptr) {
    const auto broken = context_.losses->TakeBroken();
    if (broken && rule.not_finite()) {
      note.set_broken_step(broken->first);
      note.set_broken_loss(broken->second);
    }
    note.set_sees_losses(context_.losses->sees_losses());
    if (const auto finite = context_.losses->last_finite()) note.set_finite_step(*finite);
  }
  if (context_.saves != nullptr) note.set_saves(*context_.saves);
  if (checkpoints_ != nullptr) checkpoints_->Tell(note);
  return note;
}

absl::Status TrainLoop::Look(double seconds, int64_t steps) {
  OF_ASSIGN_OR_RETURN(const std::vector<pb::LoopNote> notes, Exchange(engine_, MyNote(seconds, steps)));
  next_steps_ = std::max<int64_t>(1, notes[0].next_steps());
  OF_RETURN_IF_ERROR(LookAtNotes(notes));
  for (const pb::LoopNote& note : notes) {
    asked_to_stop_ |= note.skip_rest();
    if (note.stop()) End(absl::StrCat(loop_.stop().seconds(), " s have gone by (train.stop.seconds)"));
  }
  if (asked_to_stop_) End("it was asked to end");
  if (!state_.ended().empty()) Notice(absl::StrCat(kTrainingEnds, step_, ": ", state_.ended()));
  return SaveAsAsked(notes);
}

// Once for each time that the job was asked, whichever process has heard of it first.
absl::Status TrainLoop::SaveAsAsked(const std::vector<pb::LoopNote>& notes) {
  int64_t saves = 0;
  for (const pb::LoopNote& note : notes) saves = std::max(saves, note.saves());
  if (saves <= std::exchange(saves_, std::max(saves, saves_)) || checkpoints_ == nullptr) return absl::OkStatus();
  OF_RETURN_IF_ERROR(engine_.WaitBeside());
  return step_ > checkpoints_->last_step() ? checkpoints_->Save(step_, State()) : absl::OkStatus();
}

// What the losses and checkpoints of all processes mean for those that were made.
absl::Status TrainLoop::LookAtNotes(const std::vector<pb::LoopNote>& notes) {
  int64_t finite = -1;
  bool sees_losses = false;
  const pb::LoopNote* broken = nullptr;
  for (const pb::LoopNote& note : notes) {
    if (checkpoints_ != nullptr) OF_RETURN_IF_ERROR(checkpoints_->Hear(note));
    if (note.has_broken_step() && (broken == nullptr || note.broken_step() < broken->broken_step())) broken = &note;
    if (note.has_finite_step()) finite = std::max(finite, note.finite_step());
    sees_losses |= note.sees_losses();
  }
  // Where nobody sees losses, the writer's look at the numbers is all there is.
  if (!sees_losses || !loop_.stop().not_finite()) finite = step_ - 1;
  if (broken != nullptr) finite = std::min(finite, broken->broken_step() - 1);
  if (checkpoints_ != nullptr && finite >= 0) checkpoints_->Confirm(finite);
  if (broken == nullptr) return absl::OkStatus();
  return Broken(absl::FailedPreconditionError(
      absl::StrCat("the loss of step ", broken->broken_step() + 1, " is ", NumberText(broken->broken_loss()),
                   ": nothing of it is saved; train.stop { finite: false } goes on nevertheless")));
}

// What is not known to be good must not be what the next attempt goes on from.
absl::Status TrainLoop::Broken(absl::Status status) {
  if (checkpoints_ != nullptr) checkpoints_->GiveUpPending();
  return status;
}

absl::Status TrainLoop::Evaluate() {
  const pb::RunPlan& run = loop_.evaluation();
  OF_RETURN_IF_ERROR(RunWithRest(engine_, run));
  if (context_.summaries != nullptr) OF_RETURN_IF_ERROR(context_.summaries->Share(engine_));
  pb::Phase done;
  *done.mutable_run() = run;
  on_done_(done);
  OF_RETURN_IF_ERROR(LookAtEvaluation());
  state_.set_evaluated_step(step_);
  return absl::OkStatus();
}

absl::Status TrainLoop::LookAtEvaluation() {
  pb::LoopNote mine;
  if (context_.losses != nullptr) {
    const WeightedMean losses = context_.losses->TakeMean(loop_.evaluation().plan());
    mine.set_evaluation_sum(losses.sum());
    mine.set_evaluation_weight(losses.weight());
  }
  OF_ASSIGN_OR_RETURN(const std::vector<pb::LoopNote> notes, Exchange(engine_, mine));
  double sum = 0, weight = 0;
  for (const pb::LoopNote& note : notes) {
    sum += note.evaluation_sum();
    weight += note.evaluation_weight();
  }
  if (weight == 0) return absl::OkStatus();
  const double loss = sum / weight;
  if (!std::isfinite(loss) && loop_.stop().not_finite()) {
    return Broken(absl::FailedPreconditionError(
        absl::StrCat("the loss of the evaluation after step ", step_, " is ", NumberText(loss),
                     ": nothing of it is saved; train.stop { finite: false } goes on nevertheless")));
  }
  if (std::isfinite(loss) && (state_.best_step() == 0 || loss < state_.best_loss())) {
    state_.set_best_loss(loss);
    state_.set_best_step(step_);
  }
  if (!IsRegularEvaluation())
    return absl::OkStatus();  // one at the end of training is not counted by a longer training
  const pb::StopRule& rule = loop_.stop();
  const bool better = state_.evaluations() == 0 || loss < state_.lowest_loss() - rule.least_gain();
  state_.set_evaluations(state_.evaluations() + 1);
  if (better) state_.set_lowest_loss(loss);
  state_.set_fruitless(better ? 0 : state_.fruitless() + 1);
  if (rule.patience() == 0 || state_.fruitless() < rule.patience()) return absl::OkStatus();
  End(PatienceText());
  Notice(absl::StrCat(kTrainingEnds, step_, ": ", state_.ended()));
  return absl::OkStatus();
}

// No loss follows from the last update: what it left is looked at itself.
absl::Status TrainLoop::LookAtWeights() {
  absl::Status mine;
  const auto look = [&mine](const pb::Variable& variable, const char* data, int64_t count) {
    const bool good = !IsLearned(static_cast<VariableRole>(variable.role())) ||
                      SquaresAreFinite(static_cast<DType>(variable.dtype()), data, count);
    if (good || !mine.ok()) return;
    mine = absl::FailedPreconditionError(
        absl::StrCat("variable '", variable.name(),
                     "' has an element that is no number, or whose square is none: nothing of it is saved; "
                     "train.stop { finite: false } goes on nevertheless"));
  };
  OF_RETURN_IF_ERROR(engine_.ReadOwned(look));
  const absl::Status all = Annotate(Agree(engine_, mine), absl::StrCat("after step ", step_));
  return all.ok() ? all : Broken(all);
}

absl::Status TrainLoop::ShareHistograms() {
  const int64_t every = spec_.tensorboard_histograms_every();
  if (context_.summaries == nullptr || every <= 0 || step_ % every != 0) return absl::OkStatus();
  return context_.summaries->ShareHistograms(engine_);
}

}  // namespace oneflow
