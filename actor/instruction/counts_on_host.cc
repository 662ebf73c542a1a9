#include "actor/instruction/counts_on_host.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

bool Has(const google::protobuf::RepeatedPtrField<pb::Operand>& operands, const pb::Operand& x) {
  return std::any_of(operands.begin(), operands.end(), [&](const pb::Operand& other) {
    return other.register_() == x.register_() && other.zone() == x.zone() && other.offset() == x.offset();
  });
}

// The queue on which an act of the rank launches the writer of an operand that `reader` reads; none if no act does.
std::optional<int> WriterOf(const pb::Plan& plan, const pb::Actor& reader, const pb::Operand& operand) {
  const int id = operand.register_();
  const pb::Actor& writer = id < 0 ? reader : plan.actors(plan.registers(id).producer());
  const bool writes = writer.rank() == reader.rank() &&
                      std::any_of(writer.instructions().begin(), writer.instructions().end(),
                                  [&](const pb::Instruction& x) { return Has(x.outputs(), operand); });
  if (!writes) return std::nullopt;
  return writer.queue();
}

absl::StatusOr<std::unique_ptr<HostTransfer>> TransferOf(DeviceContext& device, int64_t count) {
  std::unique_ptr<HostTransfer> transfer = device.MakeTransfer(count * sizeof(int32_t), /*between=*/nullptr);
  if (transfer != nullptr) return transfer;
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for a transfer of ", count, " counts from the device to the host"));
}

}  // namespace

absl::Status CountsCopy::Begin(const TensorArg& counts) {
  if (event_ >= 0) device_.GiveBackEvent(event_);  // nobody asked
  event_ = -1;
  has_begun_ = true;
  int event = -1;
  OF_RETURN_IF_ERROR(
      Checked(transfer_->ToHost(/*slot=*/0, counts.data, static_cast<size_t>(NumBytes(counts)), &event)));
  event_ = event;
  return absl::OkStatus();
}

absl::StatusOr<const int32_t*> CountsCopy::Get() {
  if (event_ >= 0) OF_RETURN_IF_ERROR(Checked(device_.WaitEvent(std::exchange(event_, -1))));
  return reinterpret_cast<const int32_t*>(transfer_->slot(0));
}

DeviceContext* CountsOnHost::OfQueue(int queue) const {
  const auto it = devices_.find(queue);
  return it == devices_.end() ? nullptr : it->second;
}

absl::StatusOr<CountsCopy*> CountsOnHost::At(DeviceContext& device, const void* data, int64_t count) {
  const Place place(&device, data, count);
  if (const auto it = copies_.find(place); it != copies_.end()) return &it->second;
  OF_ASSIGN_OR_RETURN(std::unique_ptr<HostTransfer> transfer, TransferOf(device, count));
  return &copies_.emplace(place, CountsCopy(device, std::move(transfer))).first->second;
}

bool CountsOnHost::FollowAny(DeviceContext& device, std::span<const TensorArg> written) const {
  return std::any_of(written.begin(), written.end(), [&](const TensorArg& x) {
    return x.dtype == DType::kInt32 && copies_.count(Place(&device, x.data, x.count)) > 0;
  });
}

absl::Status CountsOnHost::Follow(DeviceContext& device, std::span<const TensorArg> written) {
  for (const TensorArg& x : written) {
    if (x.dtype != DType::kInt32) continue;
    const auto it = copies_.find(Place(&device, x.data, x.count));
    if (it != copies_.end()) OF_RETURN_IF_ERROR(it->second.Begin(x));
  }
  return absl::OkStatus();
}

int64_t CountsOnHost::device_bytes() const {
  int64_t bytes = 0;
  for (const auto& [place, copy] : copies_) bytes += copy.device_bytes();
  return bytes;
}

absl::StatusOr<CountsReader> CountsReader::Make(const Unbound& unbound, int index) {
  CountsReader reader;
  DeviceContext& device = unbound.context.device;
  if (device.host_accessible()) return reader;
  const TensorArg& counts = unbound.operands.inputs()[index];
  const pb::Operand& operand = unbound.instruction.inputs(index);
  CountsOnHost* const all = unbound.context.counts;
  const std::optional<int> queue = WriterOf(unbound.plan, unbound.actor, operand);
  DeviceContext* const writer = all != nullptr && queue.has_value() ? all->OfQueue(*queue) : nullptr;
  if (writer == nullptr) {
    OF_ASSIGN_OR_RETURN(std::unique_ptr<HostTransfer> transfer, TransferOf(device, counts.count));
    reader.own_ = std::make_unique<CountsCopy>(device, std::move(transfer));
    reader.device_bytes_ = reader.own_->device_bytes();
    return reader;
  }
  const bool in_register = operand.register_() >= 0;
  const int slots = in_register ? unbound.plan.registers(operand.register_()).slots() : 1;
  const int64_t stride = in_register ? unbound.plan.registers(operand.register_()).slot_stride() : 0;
  const int64_t bytes_before = all->device_bytes();
  for (int slot = 0; slot < slots; ++slot) {
    const char* const data = counts.as<const char>() + slot * stride;
    OF_ASSIGN_OR_RETURN(reader.followed_[data], all->At(*writer, data, counts.count));
  }
  reader.device_bytes_ = all->device_bytes() - bytes_before;
  return reader;
}

absl::Status CountsReader::Begin(const TensorArg& counts) {
  if (own_ != nullptr) {
    copy_ = own_.get();
    return copy_->Begin(counts);
  }
  if (followed_.empty()) {
    in_place_ = counts.as<const int32_t>();
    return absl::OkStatus();
  }
  const auto it = followed_.find(counts.data);
  if (it == followed_.end()) return absl::InternalError("counts lie in no slot of their register");
  copy_ = it->second;
  return copy_->has_begun() ? absl::OkStatus() : copy_->Begin(counts);
}

absl::StatusOr<const int32_t*> CountsReader::Get() {
  if (copy_ == nullptr) return in_place_;
  return copy_->Get();
}

}  // namespace oneflow
