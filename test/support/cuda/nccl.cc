// NCCL among software devices (include/nccl.h): what is checked at the call.
//
//   call ──► group ──its end──► launch: a turn of the communicator, work on the caller's stream
//   init ──►       ──its end──► set-up: ranks meet, links to all others
#include <nccl.h>

#include <memory>
#include <string>
#include <utility>

#include "test/support/cuda/nccl_communicator.h"
#include "test/support/cuda/nccl_group.h"
#include "test/support/cuda/nccl_reduce.h"
#include "test/support/cuda/nccl_rendezvous.h"
#include "test/support/cuda/nccl_work.h"
#include "test/support/cuda/system.h"

namespace oneflow::software_cuda {
namespace {

ncclResult_t NoCommunicator() { return KeepError(ncclInvalidArgument, "there is no such communicator"); }

// Whether the communicator takes calls.
ncclResult_t CheckOpen(Communicator* communicator) {
  if (communicator == nullptr) return NoCommunicator();
  if (communicator->IsFinalized()) return KeepError(ncclInvalidArgument, "the communicator is finalized");
  return communicator->Ready();
}

// While it lives, a group is open.
class OpenGroup {
 public:
  OpenGroup() { Group::OfThread().Start(); }
  OpenGroup(const OpenGroup&) = delete;
  ~OpenGroup() {
    if (is_open_) Group::OfThread().End();
  }
  // Ends it. What went wrong in this call, else what its end says.
  ncclResult_t End(ncclResult_t result) {
    is_open_ = false;
    if (result != ncclSuccess) Group::OfThread().Fail(result);
    const ncclResult_t ended = Group::OfThread().End();
    return result != ncclSuccess ? result : ended;
  }

 private:
  bool is_open_ = true;
};

// Whether the work may run on this stream.
ncclResult_t CheckStream(const Communicator& communicator, const CUstream_st* stream) {
  if (stream == nullptr) return KeepError(ncclUnhandledCudaError, "there is no such stream");
  if (stream->device != communicator.device()) {
    return KeepError(ncclInvalidUsage, "the stream is of device " + std::to_string(stream->device) +
                                           ", the communicator of " + std::to_string(communicator.device()));
  }
  const cudaError_t failed = System::Get().ErrorOf(stream->device);
  return failed == cudaSuccess ? ncclSuccess : KeepError(ncclUnhandledCudaError, cudaGetErrorString(failed));
}

ncclResult_t CheckHeader(const Communicator& communicator, const CallHeader& header) {
  if (SizeOf(static_cast<ncclDataType_t>(header.type)) == 0)
    return KeepError(ncclInvalidArgument, "there is no type " + std::to_string(header.type));
  if (header.reduction < ncclSum || header.reduction > ncclMin)
    return KeepError(ncclInvalidArgument, "there is no reduction " + std::to_string(header.reduction));
  if (header.peer < 0 || header.peer >= communicator.num_ranks()) {
    return KeepError(ncclInvalidArgument, "rank " + std::to_string(header.peer) + " of " +
                                              std::to_string(communicator.num_ranks()) + " does not exist");
  }
  return ncclSuccess;
}

ncclResult_t Add(ncclComm_t comm, cudaStream_t stream, const Call& call) {
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  if (const ncclResult_t open = CheckOpen(communicator.get()); open != ncclSuccess) return open;
  if (const ncclResult_t checked = CheckHeader(*communicator, call.header); checked != ncclSuccess) return checked;
  CUstream_st* const on = Resolve(stream);
  if (const ncclResult_t checked = CheckStream(*communicator, on); checked != ncclSuccess) return checked;
  if (IsExchange(call) && call.header.peer == communicator->rank())
    return KeepError(ncclInvalidUsage, "a rank sends to itself");
  if (!IsExchange(call) && call.header.count == 0) return ncclSuccess;
  return Group::OfThread().AddCall(communicator, on, call);
}

ncclResult_t Do(ncclComm_t comm, cudaStream_t stream, CallHeader header, const void* in, void* out) {
  OpenGroup group;
  return group.End(Add(comm, stream, {.header = header, .in = in, .out = out}));
}

ncclResult_t AddRank(ncclComm_t* comm, int num_ranks, const ncclUniqueId& id, int rank, const ncclConfig_t& config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  const bool blocks = config.blocking == NCCL_CONFIG_UNDEF_INT || config.blocking == 1;
  if (comm == nullptr || config.magic != initial.magic || config.size != initial.size ||
      (!blocks && config.blocking != 0)) {
    return KeepError(ncclInvalidArgument, "no place for the communicator, or a configuration that was not initialized");
  }
  if (num_ranks < 1 || rank < 0 || rank >= num_ranks)
    return KeepError(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(num_ranks));
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess)
    return KeepError(ncclUnhandledCudaError, cudaGetErrorString(error));
  const Membership self = {
      .num_ranks = num_ranks, .rank = rank, .physical_device = System::Get().PhysicalDevice(device)};
  Group::OfThread().AddSetUp(comm, std::make_shared<Communicator>(self, device, blocks), id);
  return ncclSuccess;
}

ncclResult_t AddFinalize(ncclComm_t comm) {
  const std::shared_ptr<Communicator> communicator = FindCommunicator(comm);
  if (const ncclResult_t open = CheckOpen(communicator.get()); open != ncclSuccess) return open;
  Group::OfThread().AddFinalize(communicator);
  return ncclSuccess;
}

}  // namespace
}  // namespace oneflow::software_cuda

namespace cuda = oneflow::software_cuda;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",       "unhandled cuda error", "unhandled system error",
                                    "internal error", "invalid argument",     "invalid usage",
                                    "remote error",   "in progress"};
  return result >= ncclSuccess && result <= ncclInProgress ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  text = cuda::LastError();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return id == nullptr ? ncclInvalidArgument : cuda::MakeId(id); }

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return ncclCommInitRankConfig(comm, num_ranks, id, rank, &config);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  cuda::OpenGroup group;
  return group.End(cuda::AddRank(comm, num_ranks, id, rank, config == nullptr ? initial : *config));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  cuda::OpenGroup group;
  return group.End(cuda::AddFinalize(comm));
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const auto communicator = cuda::FindCommunicator(comm);
  if (communicator == nullptr) return cuda::NoCommunicator();
  if (const ncclResult_t ready = communicator->Ready(); ready != ncclSuccess) return ready;
  communicator->Destroy();
  cuda::RemoveCommunicator(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const auto communicator = cuda::RemoveCommunicator(comm);
  if (communicator == nullptr) return cuda::NoCommunicator();
  communicator->Abort();
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const auto communicator = cuda::FindCommunicator(comm);
  if (communicator == nullptr || error == nullptr) return cuda::NoCommunicator();
  *error = communicator->State();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  cuda::Group::OfThread().Start();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return cuda::Group::OfThread().End(); }

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, cudaStream_t stream) {
  return cuda::Do(comm, stream,
                  {.kind = cuda::CallKind::kAllReduce, .type = type, .reduction = reduction, .count = count}, in, out);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                               ncclComm_t comm, cudaStream_t stream) {
  return cuda::Do(comm, stream,
                  {.kind = cuda::CallKind::kReduceScatter, .type = type, .reduction = reduction, .count = count}, in,
                  out);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return cuda::Do(comm, stream, {.kind = cuda::CallKind::kAllGather, .type = type, .count = count}, in, out);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return cuda::Do(comm, stream, {.kind = cuda::CallKind::kBroadcast, .type = type, .peer = root, .count = count}, in,
                  out);
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return cuda::Do(comm, stream, {.kind = cuda::CallKind::kSend, .type = type, .peer = peer, .count = count}, in,
                  nullptr);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return cuda::Do(comm, stream, {.kind = cuda::CallKind::kReceive, .type = type, .peer = peer, .count = count}, nullptr,
                  out);
}

}  // extern "C"
