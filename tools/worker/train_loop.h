// Training as a rule: steps until the next evaluation, checkpoint or end, and again, however many steps there are.
//
//   run .. look .. run .. look .. ── evaluate ── checkpoint ── run .. look .. ──► end
//
// Between two runs all workers look together whether something ends training. A run takes some seconds, so that a look
// costs nothing that one sees: its queues run empty once, for less than what a step waits for its first batch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/worker/checkpoints.h"
#include "tools/worker/worker_context.h"

namespace oneflow {

class TrainLoop {
 public:
  // Everything is borrowed; `checkpoints` is null if the job has none. `on_done` is called after runs to a station and
  // after evaluations, with what was done.
  TrainLoop(Engine& engine, const pb::JobSpec& spec, const pb::TrainLoop& loop, const WorkerContext& context,
            Checkpoints* checkpoints, std::function<void(const pb::Phase&)> on_done);

  // Trains from `first_step` on. FailedPrecondition in all processes if the loss of a step is no number and the job
  // wants it finite; the first error of the engine.
  absl::Status Run(int64_t first_step);

  // Whether someone has asked that the job end: what comes after training is left out.
  bool asked_to_stop() const { return asked_to_stop_; }

 private:
  int64_t NextStation() const;
  absl::Status RunTo(int64_t station);
  absl::Status Look(double seconds, int64_t steps);
  pb::LoopNote MyNote(double seconds, int64_t steps);
  bool IsOver() const;
  absl::Status Evaluate();
  absl::Status LookAtEvaluation();
  absl::Status ShareHistograms();
  absl::Status Save();

  Engine& engine_;
  const pb::JobSpec& spec_;
  const pb::TrainLoop& loop_;
  const WorkerContext& context_;
  Checkpoints* const checkpoints_;
  const std::function<void(const pb::Phase&)> on_done_;
  const int64_t last_step_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int64_t step_ = 0;            // the next one
  int64_t evaluated_step_ = 0;  // after how many steps the last evaluation was; 0: there was none
  int64_t next_steps_ = 1;      // before the next look
  bool over_ = false;           // training ends here
  bool asked_to_stop_ = false;
  double lowest_loss_ = 0;                   // of evaluations
  int32_t evaluations_ = 0, fruitless_ = 0;  // these in a row
};

}  // namespace oneflow
