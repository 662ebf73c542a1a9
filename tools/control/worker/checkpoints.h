// A job's checkpoints as its workers see them: one to go on from, and those that are made.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/checkpoint/folder_owner.h"
#include "actor/checkpoint/shelf.h"
#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/worker/worker_context.h"

namespace oneflow {

// All processes make the same calls. Used by the thread that runs the phases.
class Checkpoints {
 public:
  // Looks whether all processes see the folder, makes it if there is none, and removes what nobody finished. Errors, in
  // all processes: FailedPrecondition if some do not see it, or if it has checkpoints and this is the first attempt of
  // a job that does not go on from one, or if it belongs to another job that runs; Unavailable or ResourceExhausted if
  // it cannot be written.
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Open(Engine& engine, const pb::JobSpec& spec,
                                                           const WorkerContext& context);

  // Where training goes on.
  struct Begin {
    int64_t step = 0;            // the next one
    pb::TrainingState training;  // of the job that saved it
  };
  // Loads the checkpoint that the job names, or the last good one; step 0 if there is none. What is damaged is told as
  // a notice, and the one before is tried. DataLoss if there are some and none is good, InvalidArgument if it is of
  // another model.
  absl::StatusOr<Begin> Resume();

  // Copies the job's state, when the last checkpoint is written, and has it written while training goes on; `training`
  // goes with it. An error of the copy; one of the disk is told as a notice.
  absl::Status Save(int64_t step, const pb::TrainingState& training);
  // The last checkpoint is of this step and is to say `training`, as soon as it is written. Waits for nothing.
  void Amend(int64_t step, const pb::TrainingState& training);
  // Something finite followed from the state after `step` steps: all checkpoints up to it are good.
  void Confirm(int64_t step);
  // A loss that is no number followed from checkpoints that are not confirmed: no job is to go on from them.
  void GiveUpPending();
  // The last step of which one stands in the job's folder or was begun; -1: none.
  int64_t last_step() const { return last_step_; }

  // For the next exchange of notes: whether this process could not write its piece of a checkpoint; and what others
  // said of that. FailedPrecondition, in all processes, if no checkpoint must be made of what there is: numbers that
  // are none, a folder that belongs to somebody else.
  void Tell(pb::LoopNote& note);
  absl::Status Hear(const pb::LoopNote& note);

  // Waits for the last one. The error with which it failed.
  absl::Status Finish();

 private:
  Checkpoints(Engine& engine, const pb::JobSpec& spec, const WorkerContext& context)
      : engine_(engine), spec_(spec), context_(context) {}

  absl::Status Prepare();
  absl::Status CheckThatItMayBegin() const;
  absl::Status LookAt(uint64_t attempt);
  absl::StatusOr<Begin> ResumeFrom();
  absl::StatusOr<pb::CheckpointManifest> Load(const std::string& folder);
  Begin GoOnFrom(const pb::CheckpointManifest& manifest);
  void TellDifferences(const pb::CheckpointManifest& manifest, const pb::TrainingState& training);
  absl::Status TakeFolder();
  absl::Status Settle();
  void WriteAmendment();
  void OnWritten(int64_t step, const absl::Status& status);
  void Notice(const std::string& text);

  Engine& engine_;
  const pb::JobSpec& spec_;
  const WorkerContext& context_;
  int64_t last_step_ = -1;
  std::unique_ptr<FolderOwner> owner_;  // of process 0, as the next
  std::unique_ptr<Shelf> shelf_;
  absl::Mutex mu_;
  int64_t failed_step_ ABSL_GUARDED_BY(mu_) = 0;  // the last that could not be written here, not told yet
  absl::Status failure_ ABSL_GUARDED_BY(mu_);     // of the last one
  std::optional<std::pair<int64_t, pb::TrainingState>> amendment_ ABSL_GUARDED_BY(mu_);  // by step
  std::unique_ptr<CheckpointWriter> writer_;                                             // last: its thread calls us
};

}  // namespace oneflow
