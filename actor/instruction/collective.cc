// COLLECTIVE: one call of the communication library, launched on the rank's stream, or with others of its group. Of
// ragged rows the counted ones are sent and received; both ends of a transfer know the counts.
#include <algorithm>
#include <numeric>
#include <vector>

#include "actor/instruction/counts_on_host.h"
#include "actor/instruction/kinds.h"
#include "kernels/copy.h"
#include "kernels/ragged.h"

namespace oneflow {
namespace {

// Rows that a transfer sends, or receives.
struct BoundRows {
  BoundRows() = default;
  BoundRows(const pb::Rows& of, const TensorArg& counts) : row_elements(of.row_elements()) {
    rows.groups.assign(of.extent().begin(), of.extent().end());
    rows.count_stride = Strides(counts);
    rows.first_count = std::inner_product(of.start().begin(), of.start().end(), rows.count_stride.begin(), int64_t{0});
    rows.first_row = of.first_row();
    rows.rows = of.rows();
  }
  int64_t Elements(const int32_t* counts) const { return CountRows(rows, counts) * row_elements; }

  RowBox rows;
  int64_t row_elements = 0;
};

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

  // For a call by counts: takes the description of the rows from `in`.
  void AddRows(std::vector<CountsReader> counts, const pb::Instruction& in) {
    const TensorArg &sent = operands_.inputs()[1], &received = operands_.inputs()[2];
    for (const pb::Transfer& x : in.transfers()) {
      sent_rows_.push_back(x.send_count() > 0 ? BoundRows(x.send_rows(), sent) : BoundRows());
      received_rows_.push_back(x.receive_count() > 0 ? BoundRows(x.receive_rows(), received) : BoundRows());
    }
    counts_ = std::move(counts);
  }

  absl::Status Run(const CurrentAct&) override {
    SetOperands();
    if (!counts_.empty()) OF_RETURN_IF_ERROR(CountRowsOfTransfers());
    return Checked(collectives_.Launch(call_));
  }

  bool is_launched() const override { return !call_.more_follow; }

  int64_t held_bytes() const override {
    int64_t bytes = 0;
    for (const CountsReader& counts : counts_) bytes += counts.device_bytes();
    return bytes;
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

  absl::Status CountRowsOfTransfers() {
    for (size_t i = 0; i < counts_.size(); ++i) OF_RETURN_IF_ERROR(counts_[i].Begin(operands_.inputs()[1 + i]));
    OF_ASSIGN_OR_RETURN(const int32_t* const sent, counts_[0].Get());
    OF_ASSIGN_OR_RETURN(const int32_t* const received, counts_[1].Get());
    for (size_t i = 0; i < transfers_.size(); ++i) {
      transfers_[i].send_count = sent_rows_[i].Elements(sent);
      transfers_[i].receive_count = received_rows_[i].Elements(received);
    }
    return absl::OkStatus();
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
  std::vector<PeerTransfer> transfers_;               // of an exchange
  std::vector<CountsReader> counts_;                  // by counts: of the sent and of the received rows; else none
  std::vector<BoundRows> sent_rows_, received_rows_;  // likewise, by transfer
  CollectiveCall call_;
};

}  // namespace

BoundOrError BindCollective(Unbound unbound) {
  OF_ASSIGN_OR_RETURN(const CollectiveKind kind, ParseCollective(unbound.instruction.collective()));
  if (unbound.context.collectives == nullptr) {
    return absl::UnimplementedError("there are no collectives for this device");
  }
  const auto& ranks = unbound.context.plans.communicators(unbound.instruction.communicator()).ranks();
  const pb::Instruction& in = unbound.instruction;
  std::vector<CountsReader> counts;  // of the sent and of the received rows
  for (int i = 1; in.by_counts() && i <= 2; ++i) {
    OF_ASSIGN_OR_RETURN(CountsReader reader, CountsReader::Make(unbound, i));
    counts.push_back(std::move(reader));
  }
  auto collective = std::make_unique<Collective>(std::move(unbound), kind);
  OF_RETURN_IF_ERROR(collective->Prepare({ranks.begin(), ranks.end()}));
  if (in.by_counts()) collective->AddRows(std::move(counts), in);
  return collective;
}

}  // namespace oneflow
