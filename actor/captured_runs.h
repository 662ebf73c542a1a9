// What an actor launches as one piece of work, on devices that capture work: runs of neighbouring instructions, each of
// which launches the same in all acts whose operands lie at the same slots.
//
//   first act     every instruction by itself: what libraries load or set up when they are called first is there then
//   later acts    captured for these slots: one launch          not yet: captured, then launched
//
// What the first micro-batch of a step launches is kept apart, since its host code may differ. A run that the device
// refuses to capture is told once, with the device's reason, and launched one by one from then on.
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
  // those, and Internal with what the device says. `where` names the run in the log and in the device's errors.
  absl::Status Launch(const Actor& actor, DeviceContext& device, absl::FunctionRef<absl::Status()> one_by_one,
                      absl::FunctionRef<std::string()> where);
  // For how many combinations of slots it is kept.
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

// The runs of an actor's instructions that can be captured, of those that are worth it, in their order.
std::vector<CapturedRun> RunsToCapture(const std::vector<bool>& can_be_captured);

}  // namespace oneflow
