// COLLECTIVE: one call of the communication library, launched on the rank's stream, or with others of its group. Of
// ragged rows the counted ones are sent and received; both ends of a transfer know the counts.
#include <algorithm>
#include <numeric>
#include <vector>

#include "actor/check/bounds.h"
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

int PositionOf(int rank, const pb::Communicator& communicator) {
  const auto& ranks = communicator.ranks();
  const auto it = std::find(ranks.begin(), ranks.end(), rank);
  return it == ranks.end() ? -1 : static_cast<int>(it - ranks.begin());
}

// The rows are a box of those whose counts are `counts`, with as many elements.
absl::Status CheckRows(const pb::Rows& rows, const pb::Operand& counts, int64_t count) {
  bool inside = rows.start_size() == counts.dims_size() && rows.extent_size() == counts.dims_size() &&
                rows.first_row() >= 0 && rows.rows() >= 0 && rows.row_elements() >= 0;
  int64_t elements = 1;
  const auto multiply = [&](int64_t by) {
    inside = inside && (elements == 0 || by <= count / elements);
    if (inside) elements *= by;
  };
  for (int d = 0; inside && d < counts.dims_size(); ++d) {
    inside = Inside(rows.start(d), rows.extent(d), counts.dims(d));
    multiply(rows.extent(d));
  }
  multiply(rows.rows());
  multiply(rows.row_elements());
  if (inside && elements == count) return absl::OkStatus();
  return Malformed("rows ", rows.ShortDebugString(), " are not ", count, " elements whose counts are ",
                   counts.ShortDebugString());
}

// An exchange by counts has counts of the sent and of the received rows, and rows for each.
absl::Status CheckCountsOfCall(const pb::Instruction& in) {
  if (in.inputs_size() != 3) return Malformed("a call by counts has ", in.inputs_size(), " inputs, not 3");
  for (int i = 1; i < 3; ++i) {
    if (in.inputs(i).dtype() != pb::I32) return Malformed("its counts are of dtype ", in.inputs(i).dtype());
  }
  for (int i = 0; i < in.transfers_size(); ++i) {
    const pb::Transfer& x = in.transfers(i);
    const std::string where = absl::StrCat("transfer ", i);
    if (x.send_count() > 0) OF_RETURN_IF_ERROR_AT(CheckRows(x.send_rows(), in.inputs(1), x.send_count()), where);
    if (x.receive_count() > 0) {
      OF_RETURN_IF_ERROR_AT(CheckRows(x.receive_rows(), in.inputs(2), x.receive_count()), where);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTransfers(const pb::Instruction& in, int own, int size) {
  int last = -1;
  for (int i = 0; i < in.transfers_size(); ++i) {
    const pb::Transfer& x = in.transfers(i);
    if (x.peer() <= last || x.peer() >= size || x.peer() == own) {
      return Malformed("transfer ", i, ": peer ", x.peer(), " is itself, out of order or not one of ", size);
    }
    last = x.peer();
    if (!Inside(x.send_offset(), x.send_count(), Elements(in.inputs())) ||
        !Inside(x.receive_offset(), x.receive_count(), Elements(in.outputs()))) {
      return Malformed("transfer ", i, ": sends ", x.send_count(), " elements at ", x.send_offset(), " of ",
                       Elements(in.inputs()), " and receives ", x.receive_count(), " at ", x.receive_offset(), " of ",
                       Elements(in.outputs()));
    }
  }
  return in.by_counts() ? CheckCountsOfCall(in) : absl::OkStatus();
}

}  // namespace

absl::Status CheckCollective(const Unchecked& unchecked) {
  const auto& [set, actor, in] = unchecked;
  if (in.communicator() < 0 || in.communicator() >= set.communicators_size()) {
    return Malformed("communicator ", in.communicator(), " is not one of ", set.communicators_size());
  }
  const pb::Communicator& communicator = set.communicators(in.communicator());
  const int own = PositionOf(actor.rank(), communicator);
  if (own < 0) return Malformed("rank ", actor.rank(), " is no member of communicator ", in.communicator());
  OF_ASSIGN_OR_RETURN(const CollectiveKind kind, ParseCollective(absl::string_view(in.collective())));
  // In a broadcast and an exchange a member may only send, or only receive.
  const bool both = kind != CollectiveKind::kBroadcast && kind != CollectiveKind::kExchange;
  const int inputs_size = in.by_counts() ? std::min(in.inputs_size(), 1) : in.inputs_size();
  if (inputs_size > 1 || in.outputs_size() > 1 || inputs_size + in.outputs_size() < (both ? 2 : 1)) {
    return Malformed("a collective has one input and one output, not ", in.inputs_size(), " and ", in.outputs_size());
  }
  if (in.inputs_size() + in.outputs_size() == 2 && in.inputs(0).dtype() != in.outputs(0).dtype()) {
    return Malformed("takes dtype ", in.inputs(0).dtype(), " and gives ", in.outputs(0).dtype());
  }
  const int size = communicator.ranks_size();
  if (kind != CollectiveKind::kExchange && in.by_counts()) return Malformed("only an exchange goes by counts");
  if (kind != CollectiveKind::kExchange && !in.transfers().empty()) return Malformed("only an exchange has transfers");
  if (kind == CollectiveKind::kExchange) return CheckTransfers(in, own, size);
  if (kind == CollectiveKind::kBroadcast && (own == 0) == in.inputs().empty()) {
    return Malformed("a broadcast comes from member 0; this is member ", own, ", with ", in.inputs_size(), " inputs");
  }
  if (in.inputs_size() + in.outputs_size() < 2) return absl::OkStatus();
  const int64_t inputs = Elements(in.inputs()), outputs = Elements(in.outputs());
  const bool gathers = kind == CollectiveKind::kAllGather, scatters = kind == CollectiveKind::kReduceScatter;
  const int64_t whole = gathers ? outputs : inputs, part = gathers ? inputs : outputs;
  const bool fits = gathers || scatters ? whole % size == 0 && whole / size == part : whole == part;
  if (fits) return absl::OkStatus();
  return Malformed("'", in.collective(), "' among ", size, " ranks of ", inputs, " elements to ", outputs);
}

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
