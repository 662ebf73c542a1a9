// FETCH: hands a value to the host as doubles, or one with its weight (attribute `weighted`). Where the host cannot
// address the device's memory, a host transfer brings it first, while later launches already run.
#include <atomic>
#include <string>

#include "actor/check/bounds.h"
#include "actor/element.h"
#include "actor/instruction/attributes.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/transfer_memory.h"

namespace oneflow {
namespace {

class Fetch final : public BoundInstruction {
 public:
  explicit Fetch(Unbound unbound)
      : BoundInstruction(std::move(unbound.operands)),
        context_(unbound.context),
        plan_(unbound.plan.name()),
        name_(ToAttrMap(unbound.instruction.attributes()).String("name")),
        weighted_(ToAttrMap(unbound.instruction.attributes()).Bool("weighted")) {}

  absl::Status MakeTransfer(TransferMemory memory) {
    if (context_.device.host_accessible()) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(transfer_, memory.Make(NumBytes(operands_.inputs()[0])));
    return absl::OkStatus();
  }

  absl::Status Run(const CurrentAct& act) override {
    const TensorArg& value = operands_.inputs()[0];
    if (transfer_ == nullptr) {
      Hand(act.step, value.data);
      return absl::OkStatus();
    }
    const int slot = slot_;
    slot_ = (slot_ + 1) % HostTransfer::kSlots;
    on_its_way_[slot].wait(true);
    int event = 0;
    OF_RETURN_IF_ERROR(Checked(transfer_->ToHost(slot, value.data, NumBytes(value), &event)));
    on_its_way_[slot] = true;
    act.afterwards.push_back({event, [this, slot, step = act.step](const char* error) {
                                if (error == nullptr) Hand(step, transfer_->slot(slot));
                                on_its_way_[slot] = false;
                                on_its_way_[slot].notify_one();
                              }});
    return absl::OkStatus();
  }

  int64_t held_bytes() const override {
    return transfer_ == nullptr ? 0 : static_cast<int64_t>(transfer_->device_bytes());
  }

 private:
  void Hand(int64_t step, const void* data) {
    if (!context_.on_fetch) return;
    const TensorArg& value = operands_.inputs()[0];
    Fetched fetched{.plan = plan_, .name = name_, .step = step};
    fetched.values.reserve(value.count);
    for (int64_t i = 0; i < value.count; ++i) fetched.values.push_back(LoadElement(value.dtype, data, i));
    if (weighted_) {
      fetched.weight = fetched.values.back();
      fetched.values.pop_back();
    }
    context_.on_fetch(std::move(fetched));
  }

  const RankContext context_;
  const std::string plan_;
  const std::string name_;
  const bool weighted_;                     // the last element is the weight of the one before
  std::unique_ptr<HostTransfer> transfer_;  // null: the host reads the value in place
  int slot_ = 0;                            // of the next run
  std::atomic<bool> on_its_way_[HostTransfer::kSlots] = {};
};

}  // namespace

absl::Status CheckFetch(const Unchecked& unchecked) {
  const pb::Instruction& in = unchecked.instruction;
  if (in.inputs_size() != 1) return Malformed("a fetch has one input, not ", in.inputs_size());
  const AttrMap attrs = ToAttrMap(in.attributes());
  const auto& dims = in.inputs(0).dims();
  if (attrs.Bool("weighted") && (dims.size() != 1 || dims[0] != 2)) {
    return Malformed("a value with its weight is two elements");
  }
  if (!attrs.String("name").empty()) return absl::OkStatus();
  return Malformed("a fetch has a string attribute 'name'");
}

BoundOrError BindFetch(Unbound unbound) {
  const TransferMemory memory(unbound);
  auto fetch = std::make_unique<Fetch>(std::move(unbound));
  OF_RETURN_IF_ERROR(fetch->MakeTransfer(memory));
  return fetch;
}

}  // namespace oneflow
