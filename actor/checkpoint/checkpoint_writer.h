// Writes checkpoints beside training: a process copies the part of the state that it owns, and a thread of its own
// writes the copy to the disk while the next steps run.
//
//   step 500 ends ── copy ── step 501, 502, ...
//                     └──► piece, flushed ──► part ──┐ each process
//                                                    └─► process 0 waits for all parts ──► manifest, name
//
// Processes meet only in the folder: once all parts are there, all pieces are on the disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "kernels/host_memory.h"
#include "oneflow_core/status.h"
#include "proto/checkpoint.pb.h"

namespace oneflow {

// The part of the job's state that a process writes. Offsets and sizes are those of its copy, which is the data of its
// piece. Checksums are added when it is written.
struct OwnedState {
  std::vector<pb::CheckpointTensor> tensors;
  int64_t num_bytes = 0;
};

class CheckpointWriter {
 public:
  struct Options {
    std::string path;  // of the job's checkpoints; made if there is none
    int process = 0, num_processes = 1;
    uint64_t attempt = 0;
    // Weights that are no numbers, or state that has NaN, are not saved: FailedPrecondition naming the tensor.
    bool finite = false;
    absl::Duration patience = absl::Minutes(10);  // the longest wait for the parts of other processes
    // Reports on the writer's thread the result of a checkpoint: in process 0 when it is complete, in others if they
    // failed.
    std::function<void(int64_t step, const absl::Status& status)> on_done;
    // On the writer's thread of process 0: asked before a checkpoint gets its name, which an error prevents. Empty: it
    // may.
    std::function<absl::Status(int64_t step)> may_commit;
    // There too: after a checkpoint has got its name, and when Tidy() asks for it. Its error is reported as that
    // checkpoint's, which remains nevertheless.
    std::function<absl::Status()> tidy;
  };
  // Allocates the memory of a copy. ResourceExhausted if the host has less.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(Options options, OwnedState state);
  ~CheckpointWriter();  // waits for no other process any more, so Wait() first where all is well
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies by `copy`, into state.num_bytes bytes, then writes. `head`: the manifest without tensors and pieces. Waits
  // for an earlier checkpoint that is still being written. An error of the copy, or of making the folder; on_done
  // reports later failures.
  absl::Status Start(pb::CheckpointManifest head, const std::function<absl::Status(char* to)>& copy);
  // Returns when nothing is being written or tidied.
  void Wait();
  // Has the writer's thread call Options::tidy soon.
  void Tidy();
  // Another process could not write its part of this step: it is not waited for any longer.
  void GiveUp(int64_t step, const absl::Status& why);

 private:
  CheckpointWriter(Options options, OwnedState state, HostPages copy);

  void Loop();
  absl::Status Write(const pb::CheckpointManifest& head);
  absl::Status WriteInto(const std::string& folder, const pb::CheckpointManifest& head);
  absl::StatusOr<pb::CheckpointPart> WritePiece(const std::string& folder) const;
  absl::StatusOr<std::vector<pb::CheckpointPart>> AwaitParts(const std::string& folder, int64_t step);
  // Sleeps for `pause`, unless the parts of the others will not come: then the reason.
  absl::Status WhyGivenUp(int64_t step, absl::Duration pause);
  void RemoveWhatWasWritten(int64_t step) const;

  const Options options_;
  const OwnedState state_;
  const HostPages copy_;

  std::mutex mu_;
  std::condition_variable changed_;
  bool busy_ = false, ending_ = false, untidy_ = false, tidying_ = false;
  pb::CheckpointManifest head_;
  int64_t given_up_ = -1;  // step
  absl::Status why_given_up_;
  std::thread thread_;
};

}  // namespace oneflow
