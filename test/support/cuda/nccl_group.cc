#include "test/support/cuda/nccl_group.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace oneflow::software_cuda {
namespace {

// The first error, else whether something is in progress.
ncclResult_t Worse(ncclResult_t a, ncclResult_t b) {
  if (a == ncclSuccess || (a == ncclInProgress && b != ncclSuccess)) return b;
  return a;
}

}  // namespace

Group& Group::OfThread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::Fail(ncclResult_t error) {
  if (error_ == ncclSuccess) error_ = error;
  return error;
}

void Group::AddSetUp(ncclComm_t* handle, std::shared_ptr<Communicator> communicator, const ncclUniqueId& id) {
  *handle = nullptr;
  set_ups_.push_back({handle, std::move(communicator), id});
}

void Group::AddFinalize(std::shared_ptr<Communicator> communicator) { finalizes_.push_back(std::move(communicator)); }

ncclResult_t Group::AddCall(std::shared_ptr<Communicator> communicator, cudaStream_t stream, const Call& call) {
  const auto it = std::find_if(shares_.begin(), shares_.end(),
                               [&](const Share& share) { return share.communicator == communicator; });
  if (it == shares_.end()) {
    shares_.push_back({std::move(communicator), stream, {call}});
    return ncclSuccess;
  }
  if (it->stream != stream) return KeepError(ncclInvalidUsage, "one communicator on two streams in one group");
  it->calls.push_back(call);
  return ncclSuccess;
}

ncclResult_t Group::End() {
  if (depth_ == 0) return KeepError(ncclInvalidUsage, "no group is open");
  if (--depth_ > 0) return ncclSuccess;
  const auto set_ups = std::exchange(set_ups_, {});
  const auto finalizes = std::exchange(finalizes_, {});
  auto shares = std::exchange(shares_, {});
  ncclResult_t result = std::exchange(error_, ncclSuccess);
  if (result != ncclSuccess) return result;
  result = Worse(result, RunSetUps(set_ups));
  result = Worse(result, LaunchAll(std::move(shares)));
  return Worse(result, RunFinalizes(finalizes));
}

// All at once: they wait for one another.
ncclResult_t Group::RunSetUps(const std::vector<SetUp>& set_ups) {
  ncclResult_t result = ncclSuccess;
  for (const SetUp& it : set_ups) it.communicator->SetUp(it.id);
  for (const SetUp& it : set_ups) {
    const ncclResult_t ended = it.communicator->is_blocking() ? it.communicator->Wait() : ncclInProgress;
    if (ended == ncclSuccess || ended == ncclInProgress) *it.handle = AddCommunicator(it.communicator);
    result = Worse(result, ended);
  }
  return result;
}

ncclResult_t Group::RunFinalizes(const std::vector<std::shared_ptr<Communicator>>& communicators) {
  ncclResult_t result = ncclSuccess;
  for (const auto& communicator : communicators) communicator->Finalize();
  for (const auto& communicator : communicators) {
    result = Worse(result, communicator->is_blocking() ? communicator->Wait() : ncclInProgress);
  }
  return result;
}

// Of communicators that do not block, behind the caller's back, as NCCL does.
ncclResult_t Group::LaunchAll(std::vector<Share> shares) {
  if (shares.empty()) return ncclSuccess;
  const auto blocks = [](const Share& share) { return share.communicator->is_blocking(); };
  if (std::all_of(shares.begin(), shares.end(), blocks)) {
    ncclResult_t result = ncclSuccess;
    for (Share& it : shares) result = Worse(result, LaunchCalls(it.communicator, it.stream, std::move(it.calls)));
    return result;
  }
  if (std::any_of(shares.begin(), shares.end(), blocks))
    return KeepError(ncclInvalidArgument, "a group has communicators that block and others that do not");
  for (const Share& it : shares) it.communicator->BeginProgress();
  std::thread([shares = std::move(shares)]() mutable {
    for (Share& it : shares) {
      const ncclResult_t result = LaunchCalls(it.communicator, it.stream, std::move(it.calls));
      it.communicator->EndProgress(result, "the device has failed");
    }
  }).detach();
  return ncclInProgress;
}

}  // namespace oneflow::software_cuda
