// The calls of one thread that belong together. Each call of NCCL's is a group of its own unless one is open.
#pragma once

#include <memory>
#include <vector>

#include "test/support/cuda/nccl_communicator.h"
#include "test/support/cuda/nccl_work.h"

namespace oneflow::software_cuda {

class Group {
 public:
  static Group& OfThread();

  void Start() { ++depth_; }
  // The outermost one begins what was added, and waits for set-ups; ncclInvalidUsage if none is open.
  ncclResult_t End();

  // REQUIRES, of what follows: it is open. An error of a call: the group will do nothing.
  ncclResult_t Fail(ncclResult_t error);
  void AddSetUp(ncclComm_t* handle, std::shared_ptr<Communicator> communicator, const ncclUniqueId& id);
  void AddFinalize(std::shared_ptr<Communicator> communicator);
  // ncclInvalidUsage if the group has calls of this communicator on another stream.
  ncclResult_t AddCall(std::shared_ptr<Communicator> communicator, cudaStream_t stream, const Call& call);

 private:
  struct SetUp {
    ncclComm_t* handle;
    std::shared_ptr<Communicator> communicator;
    ncclUniqueId id;
  };
  // What one communicator has to do.
  struct Share {
    std::shared_ptr<Communicator> communicator;
    cudaStream_t stream;
    std::vector<Call> calls;
  };

  static ncclResult_t RunSetUps(const std::vector<SetUp>& set_ups);
  static ncclResult_t RunFinalizes(const std::vector<std::shared_ptr<Communicator>>& communicators);
  static ncclResult_t LaunchAll(std::vector<Share> shares);

  int depth_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::vector<SetUp> set_ups_;
  std::vector<std::shared_ptr<Communicator>> finalizes_;
  std::vector<Share> shares_;
};

}  // namespace oneflow::software_cuda
