#include "actor/collective/collectives.h"

namespace oneflow {
namespace {

// In the order of the kinds.
constexpr std::pair<absl::string_view, CollectiveKind> kCollectiveNames[] = {
    {"all-reduce", CollectiveKind::kAllReduce},
    {"reduce-scatter", CollectiveKind::kReduceScatter},
    {"all-gather", CollectiveKind::kAllGather},
    {"broadcast", CollectiveKind::kBroadcast},
    {"exchange", CollectiveKind::kExchange}};

absl::string_view NameOf(CollectiveKind kind) { return kCollectiveNames[static_cast<int>(kind)].first; }

// Whether every transfer lies inside its operands and goes to another member.
absl::Status CheckTransfers(const CollectiveCall& call, const std::vector<int>& ranks) {
  const auto inside = [](int64_t offset, int64_t count, int64_t size) {
    return offset >= 0 && count >= 0 && offset <= size && count <= size - offset;
  };
  for (const PeerTransfer& t : call.transfers) {
    if (t.peer < 0 || t.peer >= static_cast<int>(ranks.size()) || ranks[t.peer] == call.rank) {
      return absl::InvalidArgumentError(absl::StrCat("exchange: rank ", call.rank, " has peer ", t.peer,
                                                     " of a communicator of ", ranks.size(), " ranks"));
    }
    if (inside(t.send_offset, t.send_count, call.in.count) && inside(t.receive_offset, t.receive_count, call.out.count))
      continue;
    return absl::InvalidArgumentError(absl::StrCat("exchange with peer ", t.peer, ": ", t.send_count, " elements from ",
                                                   t.send_offset, " of ", call.in.count, " are sent, ", t.receive_count,
                                                   " received at ", t.receive_offset, " of ", call.out.count));
  }
  return absl::OkStatus();
}

// Whether the operands' sizes fit the collective: NCCL gives every rank an equal share.
absl::Status CheckSizes(const CollectiveCall& call, int64_t ranks) {
  const int64_t in = call.in.count, out = call.out.count;
  const bool fits = call.kind == CollectiveKind::kReduceScatter ? in == out * ranks
                    : call.kind == CollectiveKind::kAllGather   ? out == in * ranks
                                                                : in == out;
  if (fits) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(NameOf(call.kind), " among ", ranks, " ranks: the input has ", in,
                                               " elements, the output has ", out, "; shares must be equal"));
}

}  // namespace

absl::Status CheckCall(const CollectiveCall& call, const std::vector<int>& ranks) {
  const bool reduces = call.kind == CollectiveKind::kAllReduce || call.kind == CollectiveKind::kReduceScatter;
  if (reduces && call.in.dtype == DType::kBool) {
    return absl::UnimplementedError(absl::StrCat(NameOf(call.kind), ": bool cannot be reduced"));
  }
  if (call.in.count > 0 && call.out.count > 0 && call.in.dtype != call.out.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(call.kind), ": the input is ", Name(call.in.dtype),
                                                   ", the output is ", Name(call.out.dtype)));
  }
  if (call.kind == CollectiveKind::kExchange) return CheckTransfers(call, ranks);
  return CheckSizes(call, static_cast<int64_t>(ranks.size()));
}

absl::StatusOr<CollectiveKind> ParseCollective(absl::string_view name) {
  for (const auto& [known, kind] : kCollectiveNames) {
    if (name == known) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("collective '", name, "' is unknown"));
}

}  // namespace oneflow
