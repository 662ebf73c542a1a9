// COLLECTIVE: one call of the communication library, launched on the rank's stream, or with others of its group.
#include <algorithm>
#include <vector>

#include "actor/instruction/kinds.h"

namespace oneflow {
namespace {

class Collective final : public BoundInstruction {
 public:
  Collective(Unbound unbound, CollectiveKind kind)
      : BoundInstruction(std::move(unbound.operands)), collectives_(*unbound.context.collectives) {
    const pb::Instruction& in = unbound.instruction;
    for (const pb::Transfer& x : in.transfers()) {
      transfers_.push_back({x.peer(), x.send_offset(), x.send_count(), x.receive_offset(), x.receive_count()});
    }
    call_ = {.kind = kind,
             .reduction = static_cast<Reduction>(in.reduce()),
             .communicator = in.communicator(),
             .rank = unbound.context.rank,
             .transfers = transfers_,
             .stream = unbound.context.device.stream(),
             .more_follow = !EndsGroup(unbound)};
    call_.in.dtype = call_.out.dtype = operands_.all()[0].dtype;
    SetOperands();
  }

  absl::Status Prepare(const std::vector<int>& ranks) { return collectives_.Prepare(call_, ranks); }

  absl::Status Run(const CurrentAct&) override {
    SetOperands();
    return Checked(collectives_.Launch(call_));
  }

  // Of an all-gather all but the own part, of a reduce-scatter the others' addends.
  int64_t remote_bytes() const override {
    if (operands_.outputs().empty()) return 0;
    return ElementsReceived() * static_cast<int64_t>(SizeOf(operands_.outputs()[0].dtype));
  }

 private:
  static bool EndsGroup(const Unbound& unbound) {
    const auto& all = unbound.actor.instructions();
    const auto next =
        std::find_if(all.begin(), all.end(), [&](const auto& x) { return &x == &unbound.instruction; }) + 1;
    return unbound.instruction.group() == 0 || next == all.end() || next->group() != unbound.instruction.group();
  }

  void SetOperands() {
    if (!operands_.inputs().empty()) call_.in = operands_.inputs()[0];
    if (!operands_.outputs().empty()) call_.out = operands_.outputs()[0];
    if (call_.kind != CollectiveKind::kBroadcast) return;
    if (operands_.inputs().empty()) call_.in = call_.out;
    if (operands_.outputs().empty()) call_.out = call_.in;
  }

  int64_t ElementsReceived() const {
    const int64_t in = operands_.inputs().empty() ? 0 : operands_.inputs()[0].count;
    const int64_t out = operands_.outputs()[0].count;
    int64_t elements = 0;
    switch (call_.kind) {
      case CollectiveKind::kAllReduce:
        return out;
      case CollectiveKind::kReduceScatter:
        return in - out;
      case CollectiveKind::kAllGather:
      case CollectiveKind::kBroadcast:
        return out - in;
      case CollectiveKind::kExchange:
        for (const PeerTransfer& x : transfers_) elements += x.receive_count;
    }
    return elements;
  }

  Collectives& collectives_;
  std::vector<PeerTransfer> transfers_;  // of an exchange
  CollectiveCall call_;
};

}  // namespace

BoundOrError BindCollective(Unbound unbound) {
  OF_ASSIGN_OR_RETURN(const CollectiveKind kind, ParseCollective(unbound.instruction.collective()));
  if (unbound.context.collectives == nullptr) {
    return absl::UnimplementedError("there are no collectives for this device");
  }
  const auto& ranks = unbound.context.plans.communicators(unbound.instruction.communicator()).ranks();
  auto collective = std::make_unique<Collective>(std::move(unbound), kind);
  OF_RETURN_IF_ERROR(collective->Prepare({ranks.begin(), ranks.end()}));
  return collective;
}

}  // namespace oneflow
