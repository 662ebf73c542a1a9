#include "test/support/cuda/nccl_transfer.h"

#include <poll.h>

#include <map>
#include <utility>

#include "test/support/cuda/nccl_reduce.h"

namespace oneflow::software_cuda {
namespace {

constexpr int kLookMilliseconds = 10;  // whether the device has failed, which wakes nobody

enum class Progress { kDone, kWaitsToRead, kWaitsToWrite, kContradicted, kNever };

bool Agree(const CallHeader& mine, const CallHeader& theirs) {
  if (mine.type != theirs.type || mine.count != theirs.count) return false;
  if (mine.kind == CallKind::kSend) return theirs.kind == CallKind::kReceive;
  if (mine.kind == CallKind::kReceive) return theirs.kind == CallKind::kSend;
  // The library chooses how it does calls by all that are launched together, so all ranks must launch the same.
  return mine.kind == theirs.kind && mine.reduction == theirs.reduction && mine.peer == theirs.peer &&
         mine.in_group == theirs.in_group && mine.group_size == theirs.group_size;
}

// Moves on with `done` of `bytes`; false if it has to wait or the other end is gone, which `*gone` says.
template <typename Move>
bool MoveOn(const Move& move, const Socket& socket, char* data, size_t bytes, size_t* done, bool* gone) {
  while (*done < bytes) {
    const ptrdiff_t moved = move(socket, data + *done, bytes - *done);
    *gone = moved < 0;
    if (moved <= 0) return false;
    *done += static_cast<size_t>(moved);
  }
  return true;
}

Progress Step(const Socket& socket, Transfer& t) {
  bool gone = false;
  const auto waits = [&](Progress for_what) { return gone ? Progress::kNever : for_what; };
  if (!MoveOn(SendSome, socket, reinterpret_cast<char*>(&t.mine), sizeof t.mine, &t.num_said, &gone))
    return waits(Progress::kWaitsToWrite);
  if (!MoveOn(ReceiveSome, socket, reinterpret_cast<char*>(&t.theirs), sizeof t.theirs, &t.num_heard, &gone))
    return waits(Progress::kWaitsToRead);
  if (!Agree(t.mine, t.theirs)) return Progress::kContradicted;
  if (t.sends && !MoveOn(SendSome, socket, t.data, t.bytes, &t.num_moved, &gone)) return waits(Progress::kWaitsToWrite);
  if (!t.sends && !MoveOn(ReceiveSome, socket, t.data, t.bytes, &t.num_moved, &gone))
    return waits(Progress::kWaitsToRead);
  return Progress::kDone;
}

// The transfers of one channel.
struct Lane {
  const Socket* socket = nullptr;
  std::vector<Transfer*> transfers;
  size_t num_done = 0;

  Progress Step() {
    Progress progress = Progress::kDone;
    while (num_done < transfers.size() && progress == Progress::kDone) {
      progress = software_cuda::Step(*socket, *transfers[num_done]);
      if (progress == Progress::kDone) ++num_done;
    }
    return progress;
  }
};

std::vector<Lane> MakeLanes(Communicator& communicator, std::vector<Transfer>& transfers) {
  std::map<std::pair<int, bool>, Lane> lanes;
  for (Transfer& t : transfers) {
    Lane& lane = lanes[{t.peer, t.sends}];
    const Link& link = communicator.link(t.peer);
    lane.socket = t.sends ? &link.send : &link.receive;
    lane.transfers.push_back(&t);
  }
  std::vector<Lane> result;
  for (auto& [channel, lane] : lanes) result.push_back(std::move(lane));
  return result;
}

}  // namespace

bool RunTransfers(Communicator& communicator, std::vector<Transfer>& transfers) {
  std::vector<Lane> lanes = MakeLanes(communicator, transfers);
  for (;;) {
    bool done = true;
    std::vector<pollfd> fds;
    for (Lane& lane : lanes) {
      const Progress progress = lane.Step();
      if (progress == Progress::kContradicted) {
        const Transfer& t = *lane.transfers[lane.num_done];
        communicator.Contradict(ToString(t.mine) + "; rank " + std::to_string(t.peer) + " is at " + ToString(t.theirs));
        return false;
      }
      done &= progress == Progress::kDone;
      if (progress == Progress::kWaitsToRead) fds.push_back({lane.socket->fd(), POLLIN, 0});
      if (progress == Progress::kWaitsToWrite) fds.push_back({lane.socket->fd(), POLLOUT, 0});
    }
    if (done) return true;
    if (communicator.Stopped()) return false;
    for (const int waker : communicator.Wakers()) fds.push_back({waker, POLLIN, 0});
    poll(fds.data(), fds.size(), kLookMilliseconds);
    communicator.Hear();
  }
}

namespace {

std::string TextOf(const CallHeader& header) {
  constexpr const char* kKinds[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "send", "receive"};
  constexpr const char* kReductions[] = {"sum", "product", "max", "min"};
  std::string text = std::string(kKinds[static_cast<int>(header.kind)]) + " of " + std::to_string(header.count) + " " +
                     NameOf(static_cast<ncclDataType_t>(header.type));
  switch (header.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      return text + ", " + kReductions[header.reduction];
    case CallKind::kAllGather:
      return text;
    case CallKind::kBroadcast:
    case CallKind::kReceive:
      return text + " from rank " + std::to_string(header.peer);
    case CallKind::kSend:
      return text + " to rank " + std::to_string(header.peer);
  }
  return text;
}

}  // namespace

std::string ToString(const CallHeader& header) {
  if (header.group_size == 1) return TextOf(header);
  return TextOf(header) + ", " + std::to_string(header.in_group + 1) + " of " + std::to_string(header.group_size) +
         " in a group";
}

}  // namespace oneflow::software_cuda
