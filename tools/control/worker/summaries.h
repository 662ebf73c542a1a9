// What TensorBoard is told of a job: values of training and of evaluations, throughput, generated text, and on request
// histograms of weights.
//
//   on_fetch of every process ──► Share(), between runs ──► process 0 ──► its event file
//
// One process writes one file, since TensorBoard reads the files of a folder one after the other. Values travel with
// the notes that processes exchange between runs, which take seconds: a step waits for nothing. An attempt that goes on
// from a checkpoint begins another file and says from which step on it counts. Of weights each process counts what it
// owns where it lies, and counts travel (value_counts.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "actor/checkpoint/folder_owner.h"
#include "actor/engine.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/worker/event_file.h"
#include "tools/control/worker/value_counts.h"
#include "tools/job/step_sizes.h"
#include "tools/job/weighted_mean.h"

namespace oneflow {

// Begin() and Share() are called by the thread that runs the phases, in all processes at the same places.
class Summaries {
 public:
  // `spec` is borrowed, and has a folder for them. `on_notice` is told, once, if the disk refuses: then nothing is
  // written any more, and training goes on.
  Summaries(const pb::JobSpec& spec, int process, std::function<void(const pb::Notice&)> on_notice)
      : spec_(spec), sizes_(spec), process_(process), on_notice_(std::move(on_notice)) {}

  // Makes the file. `steps_done`: before the first of this attempt, which is number `attempt`. In all processes:
  // Unavailable if it cannot be made, FailedPrecondition if the folder belongs to another job that runs.
  absl::Status Begin(Engine& engine, int64_t steps_done, uint64_t attempt = 1);

  // A value that the engine hands out. Any thread, at once.
  void Observe(const pb::TimedValue& value);
  // Process 0: of the last run of training, which took so long.
  void ObserveSpeed(int64_t last_step, int64_t steps, double seconds);

  // All that was observed since the last call is written. Errors of Engine::Exchange().
  absl::Status Share(Engine& engine);
  // How the weights lie now, and the gradients that the job keeps. Errors of the engine.
  absl::Status ShareHistograms(Engine& engine);

 private:
  absl::Status MakeFile(uint64_t attempt);
  absl::StatusOr<std::vector<pb::TimedValue>> Gather(Engine& engine);
  void Take(const pb::TimedValue& value);
  void AddMeans();
  void AddText();
  void AddHistogram(const std::string& name, const ValueCounts& counts);
  void Flush();
  pb::tensorboard::Event NewEvent() const;
  void AddScalar(const std::string& tag, double value);

  const pb::JobSpec& spec_;
  const StepSizes sizes_;
  const int process_;
  const std::function<void(const pb::Notice&)> on_notice_;
  absl::Mutex mu_;
  pb::WorkerFetched observed_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<FolderOwner> owner_;  // of process 0
  std::unique_ptr<EventFile> file_;     // of process 0, until the disk refuses
  int64_t steps_done_ = 0;
  double time_ = 0;                                                  // of the last value
  std::map<std::string, std::map<std::string, WeightedMean>> sums_;  // by plan and name
  std::string text_;                                                 // generated
};

}  // namespace oneflow
