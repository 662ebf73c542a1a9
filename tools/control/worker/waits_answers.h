// What a worker answers when it is asked what it waits for: before its engine stands, while it runs, and afterwards.
#pragma once

#include <mutex>

#include "actor/engine.h"
#include "proto/waits.pb.h"

namespace oneflow {

// Thread-safe.
class WaitsAnswers {
 public:
  explicit WaitsAnswers(int process) : process_(process) {}

  // Whom to ask from now on, borrowed; null: nobody. Returns when the former is not being asked any more.
  void Ask(Engine* engine);
  pb::ProcessWaits Answer();

 private:
  const int process_;
  std::mutex mu_;
  Engine* engine_ = nullptr;
};

}  // namespace oneflow
