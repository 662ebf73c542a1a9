#include "actor/collective/nccl_collectives.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "actor/collective/communicator_ids.h"
#include "actor/local_device.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

absl::Status FromNccl(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)));
}

bool Works(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

constexpr std::chrono::milliseconds kBriefly(1);  // the interval of checks on a running call
// Aborts return in a second, unless a device hangs.
constexpr std::chrono::milliseconds kAbortLimit(5000);

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

// The input of a member that only receives is empty, without a type.
DType TypeOf(const CollectiveCall& call) { return call.in.count > 0 ? call.in.dtype : call.out.dtype; }

// A rank's end of a communicator. It never waits inside the library, so it can always be aborted.
class Member {
 public:
  explicit Member(std::string name) : name_(std::move(name)) {}
  Member(const Member&) = delete;

  // "communicator 0, rank 1 (cuda:1)"
  const std::string& name() const { return name_; }

  // Begins to join; State() says when it is done. REQUIRES: the rank's device is current, and a group is open.
  absl::Status Join(int size, const ncclUniqueId& id, int index) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // The library fills in the communicator when the group ends: its place must not move.
    const ncclResult_t result = ncclCommInitRankConfig(&comm_, size, id, index, &config);
    return result == ncclInProgress ? absl::OkStatus() : FromNccl(result, "ncclCommInitRankConfig");
  }

  // Makes the waiting calls, and this one, as one launch; `make` gets a call and the communicator. A call with
  // `more_follow` is only recorded: no group stays open in the library while others may abort.
  template <typename Make>
  const char* Launch(const CollectiveCall& call, const Make& make) {
    waiting_.push_back(call);
    if (call.more_follow) return nullptr;
    const std::lock_guard<std::mutex> lock(mu_);
    if (aborted_ || comm_ == nullptr) return kAborted;
    ncclResult_t result = waiting_.size() > 1 ? ncclGroupStart() : ncclSuccess;
    for (const CollectiveCall& one : waiting_) {
      if (Works(result)) result = make(one, comm_);
    }
    if (waiting_.size() > 1) {
      const ncclResult_t ended = ncclGroupEnd();  // always: a group must not stay open
      if (Works(result)) result = ended;
    }
    waiting_.clear();
    return Settle(result);
  }

  // The state of the last operation: ncclInProgress until it has ended.
  ncclResult_t State() {
    const std::unique_lock<std::mutex> lock(mu_, std::try_to_lock);
    return lock.owns_lock() && comm_ != nullptr ? AsyncError() : ncclInProgress;
  }

  // Returns when the library does: it frees memory of the device, and so waits for all work of the device.
  void Abort() {
    aborted_ = true;
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      comm = std::exchange(comm_, nullptr);
    }
    if (comm != nullptr) ncclCommAbort(comm);
  }

 private:
  static constexpr const char* kAborted = "the communicator was aborted";

  ncclResult_t AsyncError() {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    return asked == ncclSuccess ? state : asked;
  }
  // A call may continue behind its return, until peers are connected; the next operation on the stream has to wait.
  const char* Settle(ncclResult_t result) {
    const auto begin = std::chrono::steady_clock::now();
    for (; result == ncclInProgress; result = AsyncError()) {
      if (aborted_) return kAborted;
      // Mostly the call ends in microseconds; the first on a communicator takes as long as its peers.
      if (std::chrono::steady_clock::now() - begin < kBriefly) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kBriefly);
      }
    }
    return result == ncclSuccess ? nullptr : ncclGetErrorString(result);
  }

  const std::string name_;
  std::vector<CollectiveCall> waiting_;  // the actor thread's: to be launched with the next
  std::atomic<bool> aborted_{false};
  std::mutex mu_;
  ncclComm_t comm_ = nullptr;  // guarded by mu_
};

// Aborts of communicators, on a thread for each. The library first stops a communicator's own kernels and then waits
// for the device, where a kernel of another one may wait for peers: one after the other, aborts would wait for ever.
class Aborts {
 public:
  explicit Aborts(const std::vector<std::shared_ptr<Member>>& members) : left_(std::make_shared<Left>()) {
    for (const auto& member : members) left_->names.insert(member->name());
    for (const auto& member : members) {
      std::thread([member, left = left_] {
        member->Abort();
        const std::lock_guard<std::mutex> lock(left->mu);
        left->names.erase(member->name());
        left->changed.notify_all();
      }).detach();
    }
  }
  // The communicators whose aborts have not returned within the time.
  std::set<std::string> Wait(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(left_->mu);
    left_->changed.wait_for(lock, limit, [&] { return left_->names.empty(); });
    return left_->names;
  }

 private:
  struct Left {
    std::mutex mu;
    std::condition_variable changed;
    std::set<std::string> names;  // guarded by mu
  };
  const std::shared_ptr<Left> left_;  // outlives this if an abort does not return
};

class NcclCollectives : public Collectives {
 public:
  // Aborts that do not return are left behind: the process is about to end.
  ~NcclCollectives() override {
    Abort();
    for (const std::string& name : aborts_->Wait(kAbortLimit)) {
      LOG(ERROR) << name << ": its abort has not returned within " << kAbortLimit.count() << " ms";
    }
  }

  // Joins all communicators for the ranks of `process` at once, so that late peers of one delay no other. Gives up when
  // none has come for too long.
  absl::Status Join(const pb::Program& plans, int process, const std::vector<std::string>& ids,
                    absl::Duration timeout) {
    for (int c = 0; c < plans.communicators_size(); ++c) {
      OF_RETURN_IF_ERROR_AT(Begin(plans, process, c, ids[c]), NameOf(plans, c));
    }
    std::set<std::pair<int, int>> pending;
    for (const auto& [key, member] : members_) pending.insert(key);
    auto last = std::chrono::steady_clock::now();
    while (!pending.empty()) {
      OF_ASSIGN_OR_RETURN(const bool some_came, RemoveJoined(pending));
      const auto now = std::chrono::steady_clock::now();
      if (some_came) last = now;
      if (now - last > absl::ToChronoMilliseconds(timeout)) return NotJoined(plans, process, pending, timeout);
      std::this_thread::sleep_for(kBriefly);
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
    return members_.at({call.communicator, call.rank})->Launch(call, Call);
  }

  absl::Status Check() override {
    for (const auto& [key, member] : members_) {
      const ncclResult_t state = member->State();
      if (state != ncclSuccess && state != ncclInProgress) return Annotate(FromNccl(state, "NCCL"), member->name());
    }
    return absl::OkStatus();
  }

  void Abort() override {
    const std::lock_guard<std::mutex> lock(mu_);
    if (aborts_.has_value()) return;
    std::vector<std::shared_ptr<Member>> members;
    for (const auto& [key, member] : members_) members.push_back(member);
    aborts_.emplace(members);
  }

 private:
  absl::Status Begin(const pb::Program& plans, int process, int communicator, const std::string& id_bytes) {
    const auto& ranks = plans.communicators(communicator).ranks();
    ncclUniqueId id;
    if (id_bytes.size() != sizeof(id.internal)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its id has ", id_bytes.size(), " bytes, NCCL's have ", sizeof(id.internal)));
    }
    std::copy(id_bytes.begin(), id_bytes.end(), id.internal);
    OF_RETURN_IF_ERROR(FromNccl(ncclGroupStart(), "ncclGroupStart"));
    absl::Status status;
    for (int i = 0; i < ranks.size() && status.ok(); ++i) {
      if (plans.ranks(ranks[i]).process() == process) status = JoinRank(plans, communicator, i, id);
    }
    const ncclResult_t ended = ncclGroupEnd();  // always: a group must not stay open
    if (!status.ok() || ended == ncclInProgress) return status;
    return FromNccl(ended, "ncclCommInitRankConfig");
  }

  absl::Status JoinRank(const pb::Program& plans, int communicator, int index, const ncclUniqueId& id) {
    const int rank = plans.communicators(communicator).ranks(index);
    const std::string where = absl::StrCat("rank ", rank, " (", plans.ranks(rank).device(), ")");
    OF_ASSIGN_OR_RETURN_AT(const Device device, LocalDevice(plans, rank), where);
    if (device.kind != DeviceKind::kCuda) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": NCCL connects cuda devices only"));
    }
    if (const cudaError_t error = cudaSetDevice(device.index); error != cudaSuccess) {
      return absl::UnavailableError(
          absl::StrCat(where, ": cudaSetDevice(", device.index, "): ", cudaGetErrorString(error)));
    }
    auto& member = members_[{communicator, rank}];
    member = std::make_shared<Member>(absl::StrCat("communicator ", communicator, ", ", where));
    return Annotate(member->Join(plans.communicators(communicator).ranks_size(), id, index), where);
  }

  // Whether there were any errors. Returns the first that failed by itself, else one that saw another fail.
  absl::StatusOr<bool> RemoveJoined(std::set<std::pair<int, int>>& pending) {
    std::map<std::pair<int, int>, ncclResult_t> failed;
    const size_t before = pending.size();
    for (auto it = pending.begin(); it != pending.end();) {
      const ncclResult_t state = members_.at(*it)->State();
      if (!Works(state)) failed[*it] = state;
      it = state == ncclInProgress ? std::next(it) : pending.erase(it);
    }
    if (failed.empty()) return pending.size() < before;
    const auto cause =
        std::find_if(failed.begin(), failed.end(), [](const auto& one) { return one.second != ncclRemoteError; });
    const auto& [key, state] = cause == failed.end() ? *failed.begin() : *cause;
    return Annotate(FromNccl(state, "NCCL set-up"), members_.at(key)->name());
  }

  // For the first of them: the ranks that are here, and the awaited ranks of other processes.
  static absl::Status NotJoined(const pb::Program& plans, int process, const std::set<std::pair<int, int>>& pending,
                                absl::Duration timeout) {
    const int first = pending.begin()->first;
    std::vector<std::string> here, elsewhere;
    for (const int rank : plans.communicators(first).ranks()) {
      const pb::Rank& it = plans.ranks(rank);
      if (it.process() == process) here.push_back(absl::StrCat(rank, " (", it.device(), ")"));
      if (it.process() != process) elsewhere.push_back(absl::StrCat(rank, " (process ", it.process(), ")"));
    }
    std::set<int> numbers;
    for (const auto& [communicator, rank] : pending) numbers.insert(communicator);
    numbers.erase(first);
    std::vector<std::string> others;
    for (const int number : numbers) others.push_back(absl::StrCat(number));
    return absl::UnavailableError(
        absl::StrCat(NameOf(plans, first), ": not all of its ranks have come within ", absl::FormatDuration(timeout),
                     ": here are ", Listed(here), "; missing may be ", Listed(elsewhere),
                     others.empty() ? "" : absl::StrCat("; likewise of communicators ", Listed(others))));
  }

  // "communicator 2 of ranks 0, 1, 4, 5".
  static std::string NameOf(const pb::Program& plans, int communicator) {
    std::vector<std::string> ranks;
    for (const int rank : plans.communicators(communicator).ranks()) ranks.push_back(absl::StrCat(rank));
    return absl::StrCat("communicator ", communicator, " of ranks ", Listed(ranks));
  }
  // The first ones, and the number of others.
  static std::string Listed(const std::vector<std::string>& all) {
    constexpr size_t kListed = 16;
    const size_t listed = std::min(all.size(), kListed);
    return absl::StrCat(absl::StrJoin(all.begin(), all.begin() + listed, ", "),
                        listed < all.size() ? absl::StrCat(" and ", all.size() - listed, " more") : "");
  }

  static ncclResult_t Call(const CollectiveCall& call, ncclComm_t comm) {
    const cudaStream_t stream = static_cast<cudaStream_t>(call.stream);
    const ncclDataType_t type = *DataType(TypeOf(call));
    const size_t in = static_cast<size_t>(call.in.count), out = static_cast<size_t>(call.out.count);
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return ncclAllReduce(call.in.data, call.out.data, in, type, RedOp(call.reduction), comm, stream);
      case CollectiveKind::kReduceScatter:
        return ncclReduceScatter(call.in.data, call.out.data, out, type, RedOp(call.reduction), comm, stream);
      case CollectiveKind::kAllGather:
        return ncclAllGather(call.in.data, call.out.data, in, type, comm, stream);
      case CollectiveKind::kBroadcast:  // from the communicator's first rank
        return ncclBroadcast(call.in.data, call.out.data, in, type, 0, comm, stream);
      case CollectiveKind::kExchange:
        return Exchange(call, type, comm, stream);
    }
    return ncclInvalidUsage;
  }

  // All sends and receives of this rank at once; any other order could deadlock.
  static ncclResult_t Exchange(const CollectiveCall& call, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
    const int64_t size = static_cast<int64_t>(SizeOf(TypeOf(call)));
    ncclResult_t result = ncclGroupStart();
    for (const PeerTransfer& t : call.transfers) {
      if (Works(result) && t.send_count > 0) {
        result = ncclSend(call.in.as<char>() + t.send_offset * size, static_cast<size_t>(t.send_count), type, t.peer,
                          comm, stream);
      }
      if (Works(result) && t.receive_count > 0) {
        result = ncclRecv(call.out.as<char>() + t.receive_offset * size, static_cast<size_t>(t.receive_count), type,
                          t.peer, comm, stream);
      }
    }
    const ncclResult_t ended = ncclGroupEnd();  // always: a group must not stay open
    return Works(result) ? ended : result;
  }

  // By (communicator, rank of the job). Filled by Join(), only read by the actor threads.
  std::map<std::pair<int, int>, std::shared_ptr<Member>> members_;
  std::mutex mu_;
  std::optional<Aborts> aborts_;  // guarded by mu_ until it is there
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(const pb::Program& plans, int process,
                                                                 PeerNetwork* peers, absl::Duration timeout) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> ids, AgreeOnCommunicatorIds(plans, process, peers, MakeId));
  auto collectives = std::make_unique<NcclCollectives>();
  OF_RETURN_IF_ERROR(collectives->Join(plans, process, ids, timeout));
  return collectives;
}

}  // namespace oneflow
