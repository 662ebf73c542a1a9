// What a loaded job says about itself: what it does, who waits for whom, what was done, the trace of its acts.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "actor/awake_clock.h"
#include "actor/engine/loaded_job.h"
#include "actor/engine/stall_watch.h"
#include "proto/waits.pb.h"

namespace oneflow {

class Telling {
 public:
  // Both are borrowed.
  Telling(const EngineOptions& options, const LoadedJob& job) : options_(options), job_(job) {}

  // The activity of the process as a whole: "loads weights". `plan` is the plan that runs, from its grants to its
  // barrier. Any thread.
  void SetDoing(std::string what, std::string plan = "");
  // The activity from here to the end of the scope.
  class Doing {
   public:
    Doing(Telling& telling, std::string what) : telling_(telling) { telling_.SetDoing(std::move(what)); }
    ~Doing() { telling_.SetDoing("is between two runs"); }
    Doing(const Doing&) = delete;

   private:
    Telling& telling_;
  };

  // The waits of all threads, after watching them for a while (a fraction of a second). Any thread.
  pb::ProcessWaits Waits();

  // Watches one run on the thread that calls Look(), again and again: reports its waits when it stands still.
  class RunWatch {
   public:
    explicit RunWatch(Telling& telling);
    void Look();

   private:
    Telling& telling_;
    AwakeClock clock_;
    StallWatch stall_;
  };

  // Since loading; without what only runs know. Any thread.
  EngineStats Stats() const;

  // Errors as Engine::SaveTrace. `barrier` returns when all processes have called it as often.
  absl::Status SaveTrace(const std::string& path, const std::function<absl::Status()>& barrier) const;

 private:
  pb::ProcessWaits WaitsAfter(std::chrono::milliseconds window);

  const EngineOptions& options_;
  const LoadedJob& job_;
  std::mutex waits_mu_;  // held while the threads are asked for their waits
  std::mutex mu_;
  std::string doing_ = "is loading its program";  // guarded by mu_
  std::string running_plan_;                      // guarded by mu_
};

}  // namespace oneflow
