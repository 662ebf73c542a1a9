// The part of NCCL that the engine calls, among devices in software (../nccl.cc). Names, values and meanings are
// NVIDIA's; what is not declared here cannot be called.
//
// Ranks are threads or processes of one machine. Work is put on the caller's stream and waits there until all ranks
// have come to it, or for good. What a call returns:
//
//   ncclSuccess             it is on the stream; what becomes of it there, ncclCommGetAsyncError says
//   ncclInProgress          of a communicator that does not block: it is not on the stream before ncclCommGetAsyncError
//                           says ncclSuccess, and until then the communicator takes no other call than this one and
//                           ncclCommAbort
//   ncclUnhandledCudaError  the device has failed, or there is none
//   ncclInvalidArgument     null pointers, ranks and enumerators that do not exist, a communicator that is not there,
//                           is not ready yet or was finalized
//   ncclInvalidUsage        a stream of another device; ranks that share a device; several streams of one communicator
//                           in one group; a rank that sends to itself; groups that end before they begin
//   an asynchronous error   the same as ncclCommGetAsyncError, once the communicator knows: it can be aborted only
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <climits>
#include <cstddef>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN

extern "C" {

// A number that no other communicator of the process ever had.
typedef struct ncclComm* ncclComm_t;

typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
} ncclResult_t;

typedef enum {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclBfloat16 = 9
} ncclDataType_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;  // 0: no call waits. 1 unless said
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER \
  { sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT }

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
// What went wrong last in this process, for this thread to read until its next call; the communicator is ignored.
const char* ncclGetLastError(ncclComm_t comm);

// Ranks meet in this process, which may end when all are set up. An id is for one communicator.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
// A rank of a communicator, on the thread's current device. Waits for the other ranks, in a group when it ends; `comm`
// is written then. With config->blocking 0 returns ncclInProgress, and `comm` is written at once or when the group
// ends; it is there even if nobody else comes, and can be aborted. InvalidUsage at all ranks if two of them share a
// device of this machine and no NCCL_HOSTID sets them apart; UnhandledCudaError if the device lacks memory for its
// buffers; RemoteError if the process of the id is gone, ranks
// contradict one another or end meanwhile.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank, ncclConfig_t* config);

// Waits for this rank's work and for all ranks to say so too; without blocking, ncclCommGetAsyncError tells. No calls
// are taken afterwards.
ncclResult_t ncclCommFinalize(ncclComm_t comm);
// Waits for this rank's work, for ever if others do not come to it. The communicator is gone, unless it is in progress
// or has an error: then it has to be aborted.
ncclResult_t ncclCommDestroy(ncclComm_t comm);
// Work of the communicator that runs on a stream ends, what comes later does nothing; the communicator is gone. Other
// ranks are not told. Any thread. Then the call waits for all that the device has to do, since it frees memory: for
// ever behind a kernel that waits for peers in another communicator, until that one is aborted too. In a group it does
// the same, and not at the group's end.
ncclResult_t ncclCommAbort(ncclComm_t comm);
// Any thread:
//   ncclInProgress          being set up or finalized, or a call is not on its stream yet
//   ncclRemoteError         another rank's process has ended without destroying or aborting. Work that waits for it
//                           goes on waiting
//   ncclInvalidUsage        another rank has made another call at the same place; none of the work is done
//   others                  why setting up failed
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

// What a thread calls between these begins when the outermost group ends. Collectives of a communicator run in their
// order, then its sends and receives all at once. An error of a call inside is the group's, of which nothing happens.
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

// Reductions add in the order of ranks, rounding to the type after each step, and so give the same bits everywhere.
// In place: out == in.
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, cudaStream_t stream);
// `in` has `count` elements for each rank. In place: out == in + rank * count.
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                               ncclComm_t comm, cudaStream_t stream);
// `out` gets `count` elements of each rank. In place: in == out + rank * count.
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
// In place: out == in. Of `in`, only the root's is read.
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);
// The n-th send to a rank meets its n-th receive from this one.
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

}  // extern "C"
