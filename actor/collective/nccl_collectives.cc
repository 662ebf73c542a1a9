#include "actor/collective/nccl_collectives.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <map>
#include <utility>

#include "actor/collective/communicator_ids.h"
#include "oneflow_core/mesh.h"

namespace oneflow {
namespace {

absl::Status FromNccl(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)));
}

absl::StatusOr<std::string> MakeId() {
  ncclUniqueId id;
  OF_RETURN_IF_ERROR(FromNccl(ncclGetUniqueId(&id), "ncclGetUniqueId"));
  return std::string(id.internal, sizeof(id.internal));
}

absl::StatusOr<ncclDataType_t> DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
    case DType::kBool:
      return ncclUint8;  // for calls that only move elements
  }
  return absl::InvalidArgumentError(absl::StrCat("dtype ", static_cast<int>(dtype), " is unknown"));
}

ncclRedOp_t RedOp(Reduction reduction) {
  return reduction == Reduction::kSum ? ncclSum : reduction == Reduction::kMax ? ncclMax : ncclMin;
}

const char* Text(CollectiveKind kind) {
  constexpr const char* kTexts[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "exchange"};
  return kTexts[static_cast<int>(kind)];
}

// Of a member that only receives, the input is empty and says nothing.
DType TypeOf(const CollectiveCall& call) { return call.in.count > 0 ? call.in.dtype : call.out.dtype; }

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
  return absl::UnimplementedError(absl::StrCat(Text(call.kind), " among ", ranks, " ranks: the input has ", in,
                                               " elements, the output has ", out, "; shares must be equal"));
}

absl::Status CheckCall(const CollectiveCall& call, const std::vector<int>& ranks) {
  const bool reduces = call.kind == CollectiveKind::kAllReduce || call.kind == CollectiveKind::kReduceScatter;
  if (reduces && call.in.dtype == DType::kBool) {
    return absl::UnimplementedError(absl::StrCat(Text(call.kind), ": bool cannot be reduced"));
  }
  if (call.in.count > 0 && call.out.count > 0 && call.in.dtype != call.out.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(Text(call.kind), ": the input is ", Name(call.in.dtype),
                                                   ", the output is ", Name(call.out.dtype)));
  }
  if (call.kind == CollectiveKind::kExchange) return CheckTransfers(call, ranks);
  return CheckSizes(call, static_cast<int64_t>(ranks.size()));
}

class NcclCollectives : public Collectives {
 public:
  ~NcclCollectives() override {
    // Aborting, unlike destroying, waits for no peer: after a failure there may be none.
    for (const auto& [key, member] : members_) {
      if (member.comm != nullptr) ncclCommAbort(member.comm);
    }
  }

  // Joins all communicators for the ranks of `process`.
  absl::Status Join(const pb::Program& plans, int process, const std::vector<std::string>& ids) {
    for (int c = 0; c < plans.communicators_size(); ++c) {
      const auto& ranks = plans.communicators(c).ranks();
      ncclUniqueId id;
      if (ids[c].size() != sizeof(id.internal)) {
        return absl::InvalidArgumentError(absl::StrCat("communicator ", c, ": its id has ", ids[c].size(),
                                                       " bytes, NCCL's have ", sizeof(id.internal)));
      }
      std::copy(ids[c].begin(), ids[c].end(), id.internal);
      OF_RETURN_IF_ERROR(FromNccl(ncclGroupStart(), "ncclGroupStart"));
      absl::Status status;
      for (int i = 0; i < ranks.size() && status.ok(); ++i) {
        if (plans.ranks(ranks[i]).process() == process) status = JoinRank(plans, c, i, id);
      }
      const absl::Status ended = FromNccl(ncclGroupEnd(), "ncclCommInitRank");  // always: a group must not stay open
      if (status.ok()) status = ended;
      if (!status.ok()) return Annotate(status, absl::StrCat("communicator ", c));
    }
    return absl::OkStatus();
  }

  absl::Status Prepare(const CollectiveCall& call, const std::vector<int>& ranks) override {
    if (members_.count({call.communicator, call.rank}) == 0) {
      return absl::UnimplementedError(
          absl::StrCat("rank ", call.rank, " is no member of communicator ", call.communicator, " here"));
    }
    OF_RETURN_IF_ERROR(DataType(TypeOf(call)).status());
    return CheckCall(call, ranks);
  }

  const char* Launch(const CollectiveCall& call) override {
    const ncclComm_t comm = members_.at({call.communicator, call.rank}).comm;
    const cudaStream_t stream = static_cast<cudaStream_t>(call.stream);
    const ncclDataType_t type = *DataType(TypeOf(call));
    const size_t in = static_cast<size_t>(call.in.count), out = static_cast<size_t>(call.out.count);
    ncclResult_t result = ncclInvalidUsage;
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        result = ncclAllReduce(call.in.data, call.out.data, in, type, RedOp(call.reduction), comm, stream);
        break;
      case CollectiveKind::kReduceScatter:
        result = ncclReduceScatter(call.in.data, call.out.data, out, type, RedOp(call.reduction), comm, stream);
        break;
      case CollectiveKind::kAllGather:
        result = ncclAllGather(call.in.data, call.out.data, in, type, comm, stream);
        break;
      case CollectiveKind::kBroadcast:  // from the communicator's first rank
        result = ncclBroadcast(call.in.data, call.out.data, in, type, 0, comm, stream);
        break;
      case CollectiveKind::kExchange:
        result = Exchange(call, type, comm, stream);
        break;
    }
    return result == ncclSuccess ? nullptr : ncclGetErrorString(result);
  }

 private:
  struct Member {
    ncclComm_t comm = nullptr;
  };

  // All sends and receives of this rank at once; any other order could wait in a circle.
  static ncclResult_t Exchange(const CollectiveCall& call, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
    const int64_t size = static_cast<int64_t>(SizeOf(TypeOf(call)));
    ncclResult_t result = ncclGroupStart();
    for (const PeerTransfer& t : call.transfers) {
      if (result == ncclSuccess && t.send_count > 0) {
        result = ncclSend(call.in.as<char>() + t.send_offset * size, static_cast<size_t>(t.send_count), type, t.peer,
                          comm, stream);
      }
      if (result == ncclSuccess && t.receive_count > 0) {
        result = ncclRecv(call.out.as<char>() + t.receive_offset * size, static_cast<size_t>(t.receive_count), type,
                          t.peer, comm, stream);
      }
    }
    const ncclResult_t ended = ncclGroupEnd();  // always: a group must not stay open
    return result == ncclSuccess ? ended : result;
  }

  absl::Status JoinRank(const pb::Program& plans, int communicator, int index, const ncclUniqueId& id) {
    const int rank = plans.communicators(communicator).ranks(index);
    const std::string where = absl::StrCat("rank ", rank, " (", plans.ranks(rank).device(), ")");
    OF_ASSIGN_OR_RETURN_AT(const Device device, Device::Parse(plans.ranks(rank).device()), where);
    if (device.kind != DeviceKind::kCuda) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": NCCL connects cuda devices only"));
    }
    if (const cudaError_t error = cudaSetDevice(device.index); error != cudaSuccess) {
      return absl::UnavailableError(absl::StrCat(where, ": cudaSetDevice: ", cudaGetErrorString(error)));
    }
    const int size = plans.communicators(communicator).ranks_size();
    // Inside a group NCCL fills in the communicator when the group ends: its place must not move.
    ncclComm_t* const comm = &members_[{communicator, rank}].comm;
    return Annotate(FromNccl(ncclCommInitRank(comm, size, id, index), "ncclCommInitRank"), where);
  }

  // By (communicator, rank of the job). Filled by Join(), only read by the actor threads.
  std::map<std::pair<int, int>, Member> members_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(const pb::Program& plans, int process,
                                                                 PeerNetwork* peers) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> ids, AgreeOnCommunicatorIds(plans, process, peers, MakeId));
  auto collectives = std::make_unique<NcclCollectives>();
  OF_RETURN_IF_ERROR(collectives->Join(plans, process, ids));
  return collectives;
}

}  // namespace oneflow
