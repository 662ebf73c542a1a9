// Stores the effects of the scheduler's decisions, then has them carried out: on a thread of its own, so that whoever
// decides never waits for a disk.
//
//   Perform() ──► pending ──► a transaction for all that has come meanwhile ──► Owner::OnStored, Owner::Tell
//                    └─► when there is none: thin the events of one job, delete a piece of what is no longer kept
//
// What is told is stored before. If the store cannot be written, nothing more is told and the owner hears of it.
//
// It has the store alone: others read it through here. Its locks are taken under the owner's, never the other way
// round: the owner is called without any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/control/scheduler/effects.h"
#include "tools/control/scheduler/state.h"
#include "tools/control/scheduler/steady_clock.h"
#include "tools/control/scheduler/store.h"

namespace oneflow {

class EffectWriter {
 public:
  // Called on the writer's thread.
  class Owner {
   public:
    virtual ~Owner() = default;
    // All this is stored, which took so long; it is not told yet.
    virtual void OnStored(const Effects& effects, absl::Duration took) = 0;
    // Carries out the rest of them. Jobs whose plan is damaged could not be started.
    virtual void Tell(Effects& effects, const std::vector<LostStart>& lost) = 0;
    // Nothing can be stored any more.
    virtual void OnStoreFailed(const absl::Status& status) = 0;
    // From where on someone may not have read the events of the job.
    virtual int64_t FirstUnread(int64_t job) = 0;
    // The job is past the rule. kLater: effects are still to be stored; kNotYet: it must be kept for now; kForgotten:
    // it may be deleted.
    enum class Forgetting { kLater, kNotYet, kForgotten };
    virtual Forgetting Forget(int64_t job) = 0;
  };

  // `owner` and `clock` are borrowed.
  EffectWriter(std::unique_ptr<Store> store, const EndedJobsRule& keep, const SteadyClock& clock, Owner& owner);
  ~EffectWriter() { Finish(); }

  void Start();
  // Returns when everything is stored. Nobody performs anything more.
  void Finish();

  // Leaves effects to the thread, which carries them out in this order. Their place in it. Any thread.
  int64_t Perform(Effects effects);
  // Returns when the effects at this place are stored and carried out, or the store has failed: its error.
  absl::Status AwaitStored(int64_t place);
  bool HasPending();
  absl::Status failure();

  // --- reading; any thread, also before Start() ---

  // The jobs of a former scheduler. Those that have not ended are held against what this one accepts, and have their
  // gangs; no plans. DataLoss in `valid` if a plan is damaged.
  absl::StatusOr<std::vector<StoredJob>> LoadJobs();
  absl::StatusOr<std::map<std::string, pb::StoredDaemon>> LoadDaemons();
  // NotFound if it is no longer kept.
  absl::StatusOr<pb::JobSpec> LoadSpec(int64_t job, bool with_plan);
  absl::StatusOr<std::vector<pb::JobEvent>> LoadEvents(int64_t job, int64_t from, int limit);

 private:
  using LostStarts = std::map<int64_t, LostStart>;  // by job

  void Loop();
  void StorePending();
  absl::Status Write(Effects& effects, LostStarts& lost);
  // Adds plans to the messages that start workers.
  absl::Status AddPlans(Effects& effects, LostStarts& lost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_mu_);
  // Of its own layout and its fallbacks.
  absl::Status LoadPlans(pb::JobSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_mu_);
  absl::Status CheckRestored(StoredJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_mu_);
  // Whether there is more to be deleted.
  bool PruneSome();
  // One job's events, if those of some have grown.
  void ThinSome();
  void Fail(const absl::Status& status);

  const EndedJobsRule keep_;
  const SteadyClock& clock_;
  Owner& owner_;
  int64_t passed_over_ = 0;  // by the thread alone: up to which job those past the rule may not be forgotten yet

  absl::Mutex store_mu_;
  const std::unique_ptr<Store> store_ ABSL_PT_GUARDED_BY(store_mu_);

  absl::Mutex mu_;
  Effects pending_ ABSL_GUARDED_BY(mu_);               // not yet stored
  int64_t performed_ ABSL_GUARDED_BY(mu_) = 0;         // places given to effects
  int64_t stored_ ABSL_GUARDED_BY(mu_) = 0;            // the last that is stored and told
  bool nobody_performs_ ABSL_GUARDED_BY(mu_) = false;  // the thread ends when it has stored what there is
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace oneflow
