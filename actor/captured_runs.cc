#include "actor/captured_runs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

// Launching a captured piece costs the host about as much as launching two kernels.
constexpr size_t kFewestInstructions = 4;
// Slots of several registers have as many combinations as the least common multiple of their numbers, and each captured
// piece takes memory for all its launches.
constexpr size_t kMostKept = 16;

// The addresses of operands that change from act to act, and whether the micro-batch is the first.
void SetKey(const Actor& actor, std::vector<int32_t>& key) {
  key.clear();
  key.push_back(actor.micro_batch() == 0);
  for (size_t i = 0; i < actor.spec().inputs.size(); ++i) key.push_back(actor.input_slot(static_cast<int>(i)));
  for (size_t i = 0; i < actor.spec().outputs.size(); ++i) key.push_back(actor.output_slot(static_cast<int>(i)));
}

absl::Status Said(const char* error, absl::FunctionRef<std::string()> where) {
  return error == nullptr ? absl::OkStatus() : absl::InternalError(absl::StrCat(where(), ": ", error));
}

}  // namespace

absl::Status CapturedRun::Launch(const Actor& actor, DeviceContext& device,
                                 absl::FunctionRef<absl::Status()> one_by_one, absl::FunctionRef<std::string()> where) {
  if (!std::exchange(warm_, true) || refused_) return one_by_one();
  SetKey(actor, key_);
  const auto known = works_.find(key_);
  if (known != works_.end()) return Said(known->second->Launch(), where);
  if (works_.size() >= kMostKept) return one_by_one();
  OF_ASSIGN_OR_RETURN(CapturedWork* const work, Capture(device, one_by_one, where));
  return work == nullptr ? one_by_one() : Said(work->Launch(), where);
}

absl::StatusOr<CapturedWork*> CapturedRun::Capture(DeviceContext& device, absl::FunctionRef<absl::Status()> one_by_one,
                                                   absl::FunctionRef<std::string()> where) {
  OF_RETURN_IF_ERROR(Said(device.BeginCapture(), where));
  const absl::Status launched = one_by_one();
  std::unique_ptr<CapturedWork> work;
  const char* const refused = device.EndCapture(&work);  // in any case: the stream must not stay as it is
  if (refused == nullptr && launched.ok()) return works_.emplace(key_, std::move(work)).first->second.get();
  refused_ = true;
  LOG(WARNING) << where() << ": instructions " << begin_ << " to " << end_ - 1
               << " are launched one by one, since the device does not capture them: "
               << (refused == nullptr ? std::string(launched.message()) : refused);
  return nullptr;
}

std::vector<CapturedRun> RunsToCapture(const std::vector<bool>& can_be_captured) {
  std::vector<CapturedRun> runs;
  for (size_t i = 0; i < can_be_captured.size();) {
    size_t end = i;
    while (end < can_be_captured.size() && can_be_captured[end]) ++end;
    if (end - i >= kFewestInstructions) runs.emplace_back(i, end);
    i = end + 1;
  }
  return runs;
}

}  // namespace oneflow
