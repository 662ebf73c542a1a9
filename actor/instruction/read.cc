// READ: a data source fills the outputs. Where the host cannot address the device's memory, it fills a slot of a host
// transfer per output, while earlier launches still run. An attribute may set the least time.
#include <chrono>
#include <thread>
#include <vector>

#include "actor/check/bounds.h"
#include "actor/instruction/attributes.h"
#include "actor/instruction/host_staging.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/operand_check.h"

namespace oneflow {
namespace {

// Null if there is none.
const std::atomic<int64_t>* ShiftOf(const Unbound& unbound) {
  if (unbound.context.row_shifts == nullptr) return nullptr;
  const auto shift = unbound.context.row_shifts->find(unbound.plan.name());
  return shift == unbound.context.row_shifts->end() ? nullptr : &shift->second;
}

class Read final : public BoundInstruction {
 public:
  Read(Unbound unbound, std::shared_ptr<Source> source, double least_ms)
      : BoundInstruction(std::move(unbound.operands)),
        device_(unbound.context.device),
        micro_batches_(unbound.plan.micro_batches()),
        row_shift_(ShiftOf(unbound)),
        least_(static_cast<int64_t>(least_ms * 1e6)),
        source_(std::move(source)),
        staging_(unbound.context.device) {}

  absl::Status MakeTransfers(TransferMemory memory) {
    return device_.host_accessible() ? absl::OkStatus() : staging_.Make(memory, operands_.outputs());
  }

  absl::Status Run(const CurrentAct& act) override {
    if (device_.host_accessible()) return ReadInto(act, operands_.outputs());
    std::vector<TensorArg> staged(operands_.outputs().begin(), operands_.outputs().end());
    const int outputs = static_cast<int>(staged.size());
    OF_RETURN_IF_ERROR(staging_.TakeSlots());
    for (int i = 0; i < outputs; ++i) staged[i].data = staging_.slot(i);
    OF_RETURN_IF_ERROR(ReadInto(act, staged));
    for (int i = 0; i < outputs; ++i) OF_RETURN_IF_ERROR(staging_.ToDevice(i, operands_.outputs()[i]));
    return absl::OkStatus();
  }

  int64_t held_bytes() const override { return staging_.held_bytes(); }

 private:
  absl::Status ReadInto(const CurrentAct& act, absl::Span<const TensorArg> outputs) {
    const auto begin = std::chrono::steady_clock::now();
    OF_RETURN_IF_ERROR(source_->Read(act.step, act.micro_batch, micro_batches_, outputs,
                                     row_shift_ == nullptr ? 0 : row_shift_->load(std::memory_order_relaxed)));
    if (least_.count() > 0) std::this_thread::sleep_until(begin + least_);
    return absl::OkStatus();
  }

  DeviceContext& device_;
  const int64_t micro_batches_;
  const std::atomic<int64_t>* const row_shift_;  // null: none
  const std::chrono::nanoseconds least_;
  const std::shared_ptr<Source> source_;
  HostStaging staging_;  // of outputs
};

}  // namespace

absl::Status CheckRead(const Unchecked& unchecked) {
  return unchecked.instruction.outputs().empty() ? Malformed("it has no outputs") : absl::OkStatus();
}

BoundOrError BindRead(Unbound unbound) {
  const AttrMap attrs = ToAttrMap(unbound.instruction.attributes());
  OF_ASSIGN_OR_RETURN(const OpDef* const read_data, unbound.context.ops.Get("read_data"));
  OF_RETURN_IF_ERROR(CheckOperands(*read_data, attrs, unbound.plan, unbound.actor, unbound.instruction));
  OF_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, unbound.context.sources.Open(attrs));
  const double least_ms = attrs.Double("least_ms");
  if (!(least_ms >= 0 && least_ms <= 1e4))
    return absl::InvalidArgumentError(absl::StrCat("least_ms ", least_ms, " is not in [0, 10000]"));
  const TransferMemory memory(unbound);
  auto read = std::make_unique<Read>(std::move(unbound), std::move(source), least_ms);
  OF_RETURN_IF_ERROR(read->MakeTransfers(memory));
  return read;
}

}  // namespace oneflow
