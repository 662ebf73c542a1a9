// Training as a rule: steps until the next evaluation, checkpoint or end, and again, however many steps there are.
//
//   run .. look .. run .. look .. ── checkpoint ── evaluate ── run .. look .. ──► end
//
// Between two runs all workers look together whether something ends training. A run takes some seconds, so that a look
// costs nothing that one sees: its queues run empty once, for less than what a step waits for its first batch.
//
// What the rules have seen so far (lowest loss, samples, evaluations) is a TrainingState, which every checkpoint has.
// So a job that was ended anywhere and goes on does what it would have done without that. A checkpoint that is due
// comes before an evaluation that is due at the same step: if the evaluation fails, the steps are not lost. What the
// evaluation found is added to the checkpoint behind it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/worker/checkpoints.h"
#include "tools/control/worker/worker_context.h"
#include "tools/job/step_sizes.h"

namespace oneflow {

// How the notice of why training ended before its last step begins.
inline constexpr char kTrainingEnds[] = "training ends after step ";

class TrainLoop {
 public:
  // Everything is borrowed; `checkpoints` is null if the job has none. `on_done` is called after runs to a station and
  // after evaluations, with what was done.
  TrainLoop(Engine& engine, const pb::JobSpec& spec, const pb::TrainLoop& loop, const WorkerContext& context,
            Checkpoints* checkpoints, std::function<void(const pb::Phase&)> on_done);

  // Trains on from where `begin` says. FailedPrecondition in all processes if a loss, of training or of an evaluation,
  // or a weight at the end is no number and the job wants them finite; the first error of the engine.
  absl::Status Run(const Checkpoints::Begin& begin);

  // Whether someone has asked that the job end: what comes after training is left out.
  bool asked_to_stop() const { return asked_to_stop_; }

 private:
  int64_t LastStep() const;
  int64_t NextStation() const;
  absl::Status RunToEnd();
  absl::Status RunTo(int64_t station);
  struct Stretch {
    std::string plan;
    int64_t end = 0;
  };
  Stretch NextStretch(const std::string& plan, int64_t end) const;
  absl::Status RunSteps(const std::string& plan, int64_t steps);
  absl::Status BetweenSteps();
  absl::Status MeetGroups();
  absl::Status MeetAnchor();
  absl::Status BeginRounds();
  absl::Status EndRound();
  absl::Status FinishRounds();
  absl::Status AtStation();
  absl::Status Look(double seconds, int64_t steps);
  pb::LoopNote MyNote(double seconds, int64_t steps);
  absl::Status LookAtNotes(const std::vector<pb::LoopNote>& notes);
  std::string WhyOver() const;
  std::string PatienceText() const;
  void End(std::string why);
  bool IsOver() const { return !state_.ended().empty() || step_ >= last_step_; }
  bool IsEvaluationDue() const;
  bool IsRegularEvaluation() const { return loop_.evaluate_every() > 0 && step_ % loop_.evaluate_every() == 0; }
  absl::Status Evaluate();
  absl::Status LookAtEvaluation();
  absl::Status LookAtWeights();
  absl::Status ShareHistograms();
  pb::TrainingState State() const;
  void PlaceReaders();
  absl::Status Broken(absl::Status status);
  void Notice(const std::string& text) const;
  absl::Status SaveAsAsked(const std::vector<pb::LoopNote>& notes);

  Engine& engine_;
  const pb::JobSpec& spec_;
  const pb::TrainLoop& loop_;
  const WorkerContext& context_;
  Checkpoints* const checkpoints_;
  const std::function<void(const pb::Phase&)> on_done_;
  const StepSizes sizes_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int64_t first_step_ = 0;  // with which this attempt began
  int64_t last_step_ = 0;   // before which training ends at the latest
  int64_t step_ = 0;        // the next one
  int64_t next_steps_ = 1;  // before the next look
  bool asked_to_stop_ = false;
  bool finished_ = false;    // w is the mean of what groups have of their own
  pb::TrainingState state_;  // samples and rows: of those before first_step_
  int64_t saves_ = 0;        // checkpoints that were asked for
};

}  // namespace oneflow
