// Pieces of work that an actor launches as one, on devices that capture work: runs of neighbouring instructions that
// launch the same in all acts whose operands lie at the same slots.
//
//   first act     every instruction by itself: libraries load and set up things at their first call
//   later acts    captured for these slots: one launch          not yet: captured, then launched
//
// The first micro-batch of a step has its own pieces, since its host code may differ. A run that the device refuses to
// capture is reported once, with the device's reason, and launched one by one from then on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "actor/actor.h"
#include "kernels/device.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Instructions [begin, end) of an actor. Used by the thread that launches.
class CapturedRun {
 public:
  CapturedRun(size_t begin, size_t end) : begin_(begin), end_(end) {}

  size_t begin() const { return begin_; }
  size_t end() const { return end_; }

  // Launches the run for the actor's current act; `one_by_one` launches its instructions, each by itself. Errors of
  // those, and Internal with the device's words. `where` names the run in the log and in the device's errors.
  absl::Status Launch(const Actor& actor, DeviceContext& device, absl::FunctionRef<absl::Status()> one_by_one,
                      absl::FunctionRef<std::string()> where);
  // The number of captured combinations of slots.
  int num_captured() const { return static_cast<int>(works_.size()); }

 private:
  // The work for the key; null if it could not be captured.
  absl::StatusOr<CapturedWork*> Capture(DeviceContext& device, absl::FunctionRef<absl::Status()> one_by_one,
                                        absl::FunctionRef<std::string()> where);

  const size_t begin_, end_;
  bool warm_ = false;     // has been launched once
  bool refused_ = false;  // by the device
  std::vector<int32_t> key_;
  std::map<std::vector<int32_t>, std::unique_ptr<CapturedWork>> works_;
};

// The runs of an actor's instructions that can be captured and are worth it, in order.
std::vector<CapturedRun> RunsToCapture(const std::vector<bool>& can_be_captured);

}  // namespace oneflow
