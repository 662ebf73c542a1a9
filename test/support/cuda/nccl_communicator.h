// One rank of a communicator: its links, its errors, the order of its work. Shared by its handle, the work that waits
// on streams, and threads that set it up.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "test/support/cuda/nccl_rendezvous.h"

namespace oneflow::software_cuda {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(const Membership& self, int device, bool is_blocking)
      : self_(self), device_(device), is_blocking_(is_blocking) {}

  int num_ranks() const { return self_.num_ranks; }
  int rank() const { return self_.rank; }
  int device() const { return device_; }
  bool is_blocking() const { return is_blocking_; }

  // These begin on a thread of their own; State() is ncclInProgress meanwhile.
  void SetUp(const ncclUniqueId& id);
  void Finalize();
  // Until nothing is in progress; then as State() without a look at the others.
  ncclResult_t Wait();

  // What ncclCommGetAsyncError says.
  ncclResult_t State();
  // Whether it can be used, else what calls return.
  ncclResult_t Ready();
  bool IsFinalized();
  // Between these State() is ncclInProgress.
  void BeginProgress();
  void EndProgress(ncclResult_t result, const std::string& error);

  // As in nccl.h: Abort() waits for the device, Destroy() for the own work.
  void Abort();
  void Destroy();

  // Work runs by turns, in the order in which it was launched, whatever its streams are.
  uint64_t NextTurn();
  // False if Stopped() comes first.
  bool AwaitTurn(uint64_t turn);
  void EndTurn();
  // Counts calls from 1. REQUIRES: launching() is held.
  uint64_t NextCall() { return ++num_calls_; }

  // Aborted, contradicted by another rank, or its device has failed: no work is done any more.
  bool Stopped();
  // A rank has made another call than this one, which both and all others shall know.
  void Contradict(const std::string& what);

  // For work. REQUIRES: set up.
  const Link& link(int rank) const { return links_[rank]; }
  // What wakes work that waits: readable when there is something to hear or the communicator is aborted.
  std::vector<int> Wakers();
  // Takes what the others have said besides data.
  void Hear();

  // Keeps launches of several threads apart: a turn is taken and its work enqueued at once.
  std::mutex& launching() { return launching_; }

 private:
  // What ranks say besides data.
  enum Word : char { kFinalized = 'f', kLeft = 'l', kContradicted = 'c' };
  struct Other {
    bool is_done = false;  // will make no more calls
    bool is_gone = false;
  };

  // Gives back what the device holds of it.
  void LetGo();
  void Begin(std::function<ncclResult_t(std::string*)> job);
  void Say(Word word);
  ncclResult_t FlushAndMeet();
  // REQUIRES, of what follows: mutex_ is held.
  void Fail(ncclResult_t error, const std::string& what);
  void HearLocked();
  bool OthersAreDone() const;

  const Membership self_;
  const int device_;  // as the process counts
  const bool is_blocking_;
  Gate aborts_;
  std::vector<Link> links_;  // by rank; once it is set up, not changed
  std::mutex launching_;
  uint64_t num_calls_ = 0;  // guarded by it

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Other> others_;  // as links_
  int num_in_progress_ = 0;
  ncclResult_t error_ = ncclSuccess;  // the first one
  bool aborted_ = false, contradicted_ = false, finalized_ = false, holds_memory_ = false;
  uint64_t num_turns_ = 0, num_ended_ = 0;
};

// Communicators by handle. Any thread.
ncclComm_t AddCommunicator(std::shared_ptr<Communicator> communicator);
std::shared_ptr<Communicator> FindCommunicator(ncclComm_t handle);  // or null
// What was there, or null.
std::shared_ptr<Communicator> RemoveCommunicator(ncclComm_t handle);

// What ncclGetLastError says. Gives back `result`.
ncclResult_t KeepError(ncclResult_t result, const std::string& what);
std::string LastError();

}  // namespace oneflow::software_cuda
