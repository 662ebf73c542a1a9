// The counts of ragged rows in host memory: the host needs them to launch no more than the filled rows.
//
//   load    a reader names the operand that it will read
//   act     the writer of the counts is launched ──► they follow it to the host, on a stream of their own
//           the first reader sleeps until they are there; later readers find them there
//
// So counts that are made some launches before they are read cost no time, and the counts of one act travel once, for
// all readers. Counts that no launch of the rank writes (a variable's, a file's) are fetched when they are read. Where
// the host can address the device's memory they are read in place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "actor/instruction/kinds.h"
#include "kernels/device.h"
#include "kernels/host_transfer.h"
#include "kernels/tensor_arg.h"

namespace oneflow {

// Counts on their way to the host, or there.
class CountsCopy {
 public:
  // Borrows the device, behind whose launches it copies.
  CountsCopy(DeviceContext& device, std::unique_ptr<HostTransfer> transfer)
      : device_(device), transfer_(std::move(transfer)) {}

  absl::Status Begin(const TensorArg& counts);
  bool has_begun() const { return has_begun_; }
  // Sleeps until the last copy is there; it is until the next Begin(). Internal, with the device's words.
  absl::StatusOr<const int32_t*> Get();

  int64_t device_bytes() const { return static_cast<int64_t>(transfer_->device_bytes()); }

 private:
  DeviceContext& device_;
  std::unique_ptr<HostTransfer> transfer_;
  bool has_begun_ = false;
  int event_ = -1;  // the event behind which they are there; -1: they are
};

// The counts that launches of a rank write, by address. On the launching thread, except for loading.
class CountsOnHost {
 public:
  // The device as the rank's queues have it that launch, by queue; one thread serves them. Borrowed.
  explicit CountsOnHost(std::map<int, DeviceContext*> devices) : devices_(std::move(devices)) {}

  // Null for a queue that launches nothing here.
  DeviceContext* OfQueue(int queue) const;
  // The copy of `count` counts at `data`, which launches of `device` write. ResourceExhausted if there is no memory.
  absl::StatusOr<CountsCopy*> At(DeviceContext& device, const void* data, int64_t count);
  // `device` was just given work that writes these.
  absl::Status Follow(DeviceContext& device, std::span<const TensorArg> written);
  // Whether counts follow launches of `device` that write these, in any slot of their registers.
  bool FollowAny(DeviceContext& device, std::span<const TensorArg> written) const;

  bool empty() const { return copies_.empty(); }
  // Memory of the device that copies take.
  int64_t device_bytes() const;

 private:
  using Place = std::tuple<DeviceContext*, const void*, int64_t>;

  const std::map<int, DeviceContext*> devices_;
  std::map<Place, CountsCopy> copies_;
};

// Of one instruction that reads counts.
class CountsReader {
 public:
  // Of input `index` of an instruction that is being bound. Errors as CountsOnHost::At.
  static absl::StatusOr<CountsReader> Make(const Unbound& unbound, int index);

  // Fetches them if nobody has. On the launching thread, which must then Get() them before it begins again.
  absl::Status Begin(const TensorArg& counts);
  // Sleeps until they are there. Internal, as the device says.
  absl::StatusOr<const int32_t*> Get();

  // Device memory that was allocated for this reader.
  int64_t device_bytes() const { return device_bytes_; }

 private:
  std::map<const void*, CountsCopy*> followed_;  // by the slot in which the counts lie; none if no launch writes them
  std::unique_ptr<CountsCopy> own_;              // of counts that no launch writes
  CountsCopy* copy_ = nullptr;                   // begun; null: the host reads them in place
  const int32_t* in_place_ = nullptr;
  int64_t device_bytes_ = 0;
};

}  // namespace oneflow
