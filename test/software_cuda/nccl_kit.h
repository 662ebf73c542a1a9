// Ranks for tests of NCCL: in this process, set up together, and in others.
#pragma once

#include <nccl.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "test/software_cuda/device_kit.h"

namespace oneflow::software_cuda {

ncclUniqueId NewId();
ncclConfig_t Blocking(bool blocks);
// As ncclCommGetAsyncError says.
ncclResult_t StateOf(ncclComm_t comm);
// The first state that is not ncclInProgress.
ncclResult_t Settled(ncclComm_t comm);
// Until it says so, which has to come.
void AwaitState(ncclComm_t comm, ncclResult_t state);

// What takes another stream a while.
void DoOtherThings();
// Whether the stream's work is not done meanwhile.
bool IsHeld(cudaStream_t stream);

// All ranks of a communicator, rank r on device r with a stream. Calls wait for nobody, so one thread makes them all.
class Ranks {
 public:
  explicit Ranks(int num_ranks, bool blocks = true);
  Ranks(const Ranks&) = delete;
  ~Ranks();  // aborts who is left

  ncclComm_t comm(int rank) const { return comms_[rank]; }
  cudaStream_t stream(int rank) const { return streams_[rank]->get(); }
  void Abort(int rank);

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

// An array on this device; the current one stays.
template <typename T>
std::unique_ptr<DeviceArray<T>> ArrayOn(int device, const std::vector<T>& values) {
  int current = 0;
  cudaGetDevice(&current);
  cudaSetDevice(device);
  auto array = std::make_unique<DeviceArray<T>>(values.size());
  array->Set(values);
  cudaSetDevice(current);
  return array;
}

// This program once more, as one rank of two: on device `device`, it does what `part` says (nccl_parts.cc).
class RankProcess {
 public:
  RankProcess(const std::string& part, const ncclUniqueId& id, int rank, int device, const std::string& host_id = {});
  RankProcess(const RankProcess&) = delete;
  ~RankProcess() { Kill(); }

  // Until it says that it is where its part says, with the id that it uses.
  ncclUniqueId AwaitSign();
  void Kill();
  // The number that it ended with.
  int Join();

 private:
  pid_t pid_ = 0;
  int output_ = -1;
};

}  // namespace oneflow::software_cuda
