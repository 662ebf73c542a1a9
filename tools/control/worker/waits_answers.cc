#include "tools/control/worker/waits_answers.h"

namespace oneflow {

void WaitsAnswers::Ask(Engine* engine) {
  std::lock_guard<std::mutex> lock(mu_);
  engine_ = engine;
}

pb::ProcessWaits WaitsAnswers::Answer() {
  std::lock_guard<std::mutex> lock(mu_);
  if (engine_ != nullptr) return engine_->Waits();
  pb::ProcessWaits waits;
  waits.set_process(process_);
  waits.set_silent("has no engine: it is starting or ending");
  return waits;
}

}  // namespace oneflow
