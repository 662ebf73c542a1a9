// What a worker knows beside its job's spec while it runs the phases, and whom it tells what.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "proto/control.pb.h"
#include "tools/control/worker/loss_watch.h"
#include "tools/control/worker/summaries.h"

namespace oneflow {

struct WorkerContext {
  int process = 0, num_processes = 1;
  bool first_attempt = true;
  uint64_t attempt = 1;
  const std::atomic<bool>* stop = nullptr;      // borrowed; set by anyone when training shall end; null: never
  const std::atomic<int64_t>* saves = nullptr;  // borrowed; how often a checkpoint was asked for; null: never
  LossWatch* losses = nullptr;                  // borrowed; observes what the engine hands out
  Summaries* summaries = nullptr;               // borrowed; the same; null: the job has none
  // Called by the thread that runs the phases when a part of the job is done, with its number (PhaseDone.part).
  std::function<void(int part, const pb::Phase& done)> on_done;
  // The same between two runs of training, every few seconds.
  std::function<void()> on_look;
  // Any thread.
  std::function<void(const pb::Notice& notice)> on_notice;
};

}  // namespace oneflow
