#include "test/support/cuda/nccl_communicator.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"
#include "test/support/cuda/system.h"

namespace oneflow::software_cuda {
namespace {

// How often what waits looks whether its device has failed, which wakes nobody.
constexpr std::chrono::milliseconds kDeviceLook{10};

// Never destroyed: threads of streams may outlive statics.
struct Registry {
  static Registry& Get() {
    static Registry* const registry = new Registry;
    return *registry;
  }
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<Communicator>> communicators;
  uintptr_t num_added = 0;
  std::string last_error;
};

}  // namespace

// --- in progress ---

void Communicator::BeginProgress() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++num_in_progress_;
}

void Communicator::EndProgress(ncclResult_t result, const std::string& error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --num_in_progress_;
    if (result != ncclSuccess) Fail(result, error);
  }
  changed_.notify_all();
}

void Communicator::Begin(std::function<ncclResult_t(std::string*)> job) {
  BeginProgress();
  std::thread([self = shared_from_this(), job = std::move(job)] {
    std::string error;
    const ncclResult_t result = job(&error);
    self->EndProgress(result, error);
  }).detach();
}

void Communicator::SetUp(const ncclUniqueId& id) {
  Begin([this, id](std::string* error) {
    std::vector<Link> links;
    const ncclResult_t result = Meet(id, self_, aborts_, &links, error);
    if (result != ncclSuccess) return result;
    const std::lock_guard<std::mutex> lock(mutex_);
    holds_memory_ = HoldOn(device_, kNcclRankBytes);
    if (!holds_memory_) {
      *error = "Cuda failure 2 'out of memory'";
      return ncclUnhandledCudaError;
    }
    links_ = std::move(links);
    others_.resize(links_.size());
    return result;
  });
}

void Communicator::Finalize() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    finalized_ = true;
  }
  Begin([this](std::string*) { return FlushAndMeet(); });
}

ncclResult_t Communicator::FlushAndMeet() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return num_ended_ == num_turns_ || aborted_; });
  Say(kFinalized);
  for (;;) {
    HearLocked();
    if (error_ != ncclSuccess || aborted_ || OthersAreDone()) break;
    lock.unlock();
    std::vector<pollfd> fds;
    for (const int waker : Wakers()) fds.push_back({waker, POLLIN, 0});
    poll(fds.data(), fds.size(), -1);
    lock.lock();
  }
  return error_;  // told already
}

ncclResult_t Communicator::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return num_in_progress_ == 0; });
  return error_;
}

// --- errors and ends ---

ncclResult_t Communicator::State() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_in_progress_ > 0) return ncclInProgress;
  HearLocked();
  return error_;
}

ncclResult_t Communicator::Ready() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_in_progress_ > 0) return KeepError(ncclInvalidArgument, "the call before is still in progress");
  return error_;
}

bool Communicator::IsFinalized() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finalized_;
}

void Communicator::Fail(ncclResult_t error, const std::string& what) {
  if (error_ != ncclSuccess || aborted_) return;
  const std::string where = "rank " + std::to_string(rank()) + " of " + std::to_string(num_ranks());
  error_ = KeepError(error, where + ": " + what);
}

void Communicator::Abort() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    aborted_ = true;
  }
  aborts_.Open();
  changed_.notify_all();
  Wait();  // for threads that are on their way out
  Say(kLeft);
  System::Get().WaitForDevice(device_);  // its buffers are freed
  LetGo();
}

void Communicator::LetGo() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(holds_memory_, false)) LetGoOn(device_, kNcclRankBytes);
}

void Communicator::Destroy() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return (num_ended_ == num_turns_ && num_in_progress_ == 0) || aborted_; });
  }
  Say(kLeft);
  LetGo();
}

bool Communicator::Stopped() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return aborted_ || contradicted_ || System::Get().ErrorOf(device_) != cudaSuccess;
}

void Communicator::Contradict(const std::string& what) {
  Report(what, cudaSuccess);  // the device is not to blame
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    contradicted_ = true;
    Fail(ncclInvalidUsage, what);
  }
  changed_.notify_all();
  Say(kContradicted);
}

// --- turns ---

uint64_t Communicator::NextTurn() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_turns_++;
}

bool Communicator::AwaitTurn(uint64_t turn) {
  for (;;) {
    if (Stopped()) return false;
    std::unique_lock<std::mutex> lock(mutex_);
    if (changed_.wait_for(lock, kDeviceLook, [&] { return num_ended_ >= turn; })) return true;
  }
}

void Communicator::EndTurn() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++num_ended_;
  }
  changed_.notify_all();
}

// --- what ranks say ---

void Communicator::Say(Word word) {
  for (const Link& link : links_) {
    if (link.control.is_open()) Send(link.control, &word, sizeof word);
  }
}

void Communicator::Hear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  HearLocked();
}

void Communicator::HearLocked() {
  for (size_t rank = 0; rank < others_.size(); ++rank) {
    const Socket& control = links_[rank].control;
    Other& other = others_[rank];
    while (control.is_open() && !other.is_gone) {
      char word = 0;
      const ptrdiff_t heard = ReceiveSome(control, &word, sizeof word);
      if (heard == 0) break;
      other.is_gone = heard < 0;
      other.is_done |= word == kFinalized || word == kLeft;
      const std::string who = "rank " + std::to_string(rank);
      if (other.is_gone && !other.is_done) Fail(ncclRemoteError, who + " has ended");
      if (word != kContradicted) continue;
      contradicted_ = true;
      Fail(ncclInvalidUsage, who + " has seen calls that differ");
    }
  }
}

bool Communicator::OthersAreDone() const {
  for (size_t rank = 0; rank < others_.size(); ++rank) {
    if (links_[rank].control.is_open() && !others_[rank].is_done) return false;
  }
  return true;
}

std::vector<int> Communicator::Wakers() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int> result = {aborts_.fd()};
  for (size_t rank = 0; rank < others_.size(); ++rank) {
    if (links_[rank].control.is_open() && !others_[rank].is_gone) result.push_back(links_[rank].control.fd());
  }
  return result;
}

// --- handles ---

ncclComm_t AddCommunicator(std::shared_ptr<Communicator> communicator) {
  Registry& registry = Registry::Get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const uintptr_t handle = ++registry.num_added;
  registry.communicators[handle] = std::move(communicator);
  return reinterpret_cast<ncclComm_t>(handle);
}

std::shared_ptr<Communicator> FindCommunicator(ncclComm_t handle) {
  Registry& registry = Registry::Get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto it = registry.communicators.find(reinterpret_cast<uintptr_t>(handle));
  return it == registry.communicators.end() ? nullptr : it->second;
}

std::shared_ptr<Communicator> RemoveCommunicator(ncclComm_t handle) {
  Registry& registry = Registry::Get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto node = registry.communicators.extract(reinterpret_cast<uintptr_t>(handle));
  return node.empty() ? nullptr : node.mapped();
}

ncclResult_t KeepError(ncclResult_t result, const std::string& what) {
  Registry& registry = Registry::Get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.last_error = what;
  return result;
}

std::string LastError() {
  Registry& registry = Registry::Get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.last_error;
}

}  // namespace oneflow::software_cuda
