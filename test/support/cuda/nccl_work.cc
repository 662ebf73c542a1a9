#include "test/support/cuda/nccl_work.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "test/support/cuda/nccl_reduce.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/system.h"

namespace oneflow::software_cuda {
namespace {

const char* At(const void* data, size_t offset) { return static_cast<const char*>(data) + offset; }
char* At(void* data, size_t offset) { return static_cast<char*>(data) + offset; }

// Where the operands of a call lie, in bytes.
struct Extent {
  size_t share = 0;  // `count` elements
  size_t in = 0, out = 0;
  bool in_place = false;
};

Extent ExtentOf(const Communicator& communicator, const Call& call) {
  const size_t share = call.header.count * SizeOf(static_cast<ncclDataType_t>(call.header.type));
  const size_t all = share * communicator.num_ranks(), own = share * communicator.rank();
  switch (call.header.kind) {
    case CallKind::kAllReduce:
      return {share, share, share, call.in == call.out};
    case CallKind::kReduceScatter:
      return {share, all, share, call.out == At(call.in, own)};
    case CallKind::kAllGather:
      return {share, share, all, call.in == At(call.out, own)};
    case CallKind::kBroadcast: {
      const bool is_root = communicator.rank() == call.header.peer;
      return {share, is_root ? share : 0, share, call.in == call.out};
    }
    case CallKind::kSend:
      return {share, share, 0, false};
    case CallKind::kReceive:
      return {share, 0, share, false};
  }
  return {};
}

// In place, what is larger holds the other.
bool CheckOperands(const Call& call, const Extent& extent) {
  const std::string what = ToString(call.header);
  const std::string in = what + ": the input", out = what + ": the output";
  const bool one = extent.in_place, in_is_larger = extent.in > extent.out;
  std::vector<Operand> operands;
  if (extent.in > 0 && (!one || in_is_larger)) operands.push_back({in.c_str(), call.in, extent.in, one});
  if (extent.out > 0 && (!one || !in_is_larger)) operands.push_back({out.c_str(), call.out, extent.out, true});
  return CheckOperands(operands);
}

Transfer Send(const Call& call, int to, const void* data, size_t bytes) {
  return {.peer = to, .sends = true, .mine = call.header, .data = At(const_cast<void*>(data), 0), .bytes = bytes};
}
Transfer Receive(const Call& call, int from, void* data, size_t bytes) {
  return {.peer = from, .sends = false, .mine = call.header, .data = At(data, 0), .bytes = bytes};
}

// Every rank's addends of what this rank is to have come to it, and are added there.
bool RunReduction(Communicator& communicator, const Call& call, const Extent& extent) {
  const bool scatters = call.header.kind == CallKind::kReduceScatter;
  const int rank = communicator.rank();
  const auto share_of = [&](int r) { return At(call.in, scatters ? r * extent.share : 0); };
  std::vector<char> received(extent.share * communicator.num_ranks());
  std::vector<Transfer> transfers;
  std::vector<const void*> addends;
  for (int other = 0; other < communicator.num_ranks(); ++other) {
    char* const addend = received.data() + other * extent.share;
    addends.push_back(other == rank ? share_of(rank) : addend);
    if (other == rank) continue;
    transfers.push_back(Send(call, other, share_of(other), extent.share));
    transfers.push_back(Receive(call, other, addend, extent.share));
  }
  if (!RunTransfers(communicator, transfers)) return false;
  Reduce(static_cast<ncclDataType_t>(call.header.type), static_cast<ncclRedOp_t>(call.header.reduction), addends,
         call.out, call.header.count);
  return true;
}

bool RunGather(Communicator& communicator, const Call& call, const Extent& extent) {
  std::vector<Transfer> transfers;
  for (int other = 0; other < communicator.num_ranks(); ++other) {
    if (other == communicator.rank()) continue;
    transfers.push_back(Send(call, other, call.in, extent.share));
    transfers.push_back(Receive(call, other, At(call.out, other * extent.share), extent.share));
  }
  if (!RunTransfers(communicator, transfers)) return false;
  std::memmove(At(call.out, communicator.rank() * extent.share), call.in, extent.share);
  return true;
}

// All come to it, though only the root has something to send.
bool RunBroadcast(Communicator& communicator, const Call& call, const Extent& extent) {
  const int root = call.header.peer, rank = communicator.rank();
  std::vector<Transfer> transfers;
  for (int other = 0; other < communicator.num_ranks(); ++other) {
    if (other == rank) continue;
    transfers.push_back(Send(call, other, call.in, rank == root ? extent.share : 0));
    transfers.push_back(Receive(call, other, call.out, other == root ? extent.share : 0));
  }
  if (!RunTransfers(communicator, transfers)) return false;
  if (rank == root) std::memmove(call.out, call.in, extent.share);
  return true;
}

bool RunCollective(Communicator& communicator, const Call& call) {
  const Extent extent = ExtentOf(communicator, call);
  if (!CheckOperands(call, extent)) return false;
  switch (call.header.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      return RunReduction(communicator, call, extent);
    case CallKind::kAllGather:
      return RunGather(communicator, call, extent);
    default:
      return RunBroadcast(communicator, call, extent);
  }
}

bool RunExchange(Communicator& communicator, const std::vector<Call>& calls) {
  std::vector<Transfer> transfers;
  for (const Call& call : calls) {
    const Extent extent = ExtentOf(communicator, call);
    if (!CheckOperands(call, extent)) return false;
    transfers.push_back(call.header.kind == CallKind::kSend ? Send(call, call.header.peer, call.in, extent.share)
                                                            : Receive(call, call.header.peer, call.out, extent.share));
  }
  return RunTransfers(communicator, transfers);
}

std::atomic<int64_t> num_launches{0}, num_connected{0};

// What defects call it.
std::string NameOf(const Communicator& communicator, const Call& call) {
  return "rank " + std::to_string(communicator.rank()) + " of " + std::to_string(communicator.num_ranks()) + ", call " +
         std::to_string(call.number);
}

// Its turn ends with it, done or not: a device that has failed forgets work without running it.
struct Work {
  ~Work() { communicator->EndTurn(); }

  void Run() const {
    if (!communicator->AwaitTurn(turn)) return;
    for (const Call& call : collectives) {
      running.name = NameOf(*communicator, call);
      if (!RunCollective(*communicator, call)) return;
    }
    if (exchange.empty()) return;
    running.name = NameOf(*communicator, exchange[0]);
    RunExchange(*communicator, exchange);
  }

  const std::shared_ptr<Communicator> communicator;
  const uint64_t turn;
  const std::vector<Call> collectives, exchange;
};

}  // namespace

int64_t CollectiveLaunches() { return num_launches; }
int64_t ConnectedRanks() { return num_connected; }

bool IsExchange(const Call& call) {
  return call.header.kind == CallKind::kSend || call.header.kind == CallKind::kReceive;
}

ncclResult_t LaunchCalls(std::shared_ptr<Communicator> communicator, cudaStream_t stream, std::vector<Call> calls) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capture);
  if (capture != cudaStreamCaptureStatusNone)
    return KeepError(ncclInvalidUsage, "calls are not captured into graphs here");
  const std::lock_guard<std::mutex> lock(communicator->launching());
  for (Call& call : calls) call.number = communicator->NextCall();
  if (calls[0].number == 1) ++num_connected;
  const std::string name = NameOf(*communicator, calls[0]);
  const auto exchange = std::stable_partition(calls.begin(), calls.end(), [](const Call& x) { return !IsExchange(x); });
  const auto size = static_cast<int32_t>(exchange - calls.begin());
  for (int32_t i = 0; i < size; ++i) {
    calls[i].header.in_group = i;
    calls[i].header.group_size = size;
  }
  const auto work = std::shared_ptr<Work>(
      new Work{communicator, communicator->NextTurn(), {calls.begin(), exchange}, {exchange, calls.end()}});
  ++num_launches;
  const cudaError_t error = Enqueue(stream, name, [work] { work->Run(); });
  return error == cudaSuccess ? ncclSuccess : KeepError(ncclUnhandledCudaError, cudaGetErrorString(error));
}

}  // namespace oneflow::software_cuda
