// What the processes of a job say to each other and wait for: barriers, plans, notes, clocks.
#include <climits>
#include <utility>

#include "actor/transport/grpc_peer_network.h"

namespace oneflow {
namespace {

// The quickest of this many round trips says the most about a clock; each takes some 50 us within a host.
constexpr int kClockQuestions = 16;

}  // namespace

absl::Status GrpcPeerNetwork::WhyGone(int process) const {
  const Link& link = links_[process];
  if (!link.inbox.failure.ok()) {
    return absl::AbortedError(absl::StrCat(Name(process), " failed first: ", link.inbox.failure.message()));
  }
  return link.lost ? link.error : absl::OkStatus();
}

absl::Status GrpcPeerNetwork::Await(std::unique_lock<std::mutex>& lock,
                                    const std::function<bool(const PeerInbox&)>& arrived) {
  absl::Status status;
  changed_.wait(lock, [&] {
    bool all = true;
    for (int p = 0; p < self_.processes; ++p) {
      const Link& link = links_[p];
      if (p == self_.process || arrived(link.inbox)) continue;
      all = false;
      if (status.ok()) status = WhyGone(p);
    }
    if (all)
      status = absl::OkStatus();
    else if (status.ok())
      status = interrupted_;
    return all || !status.ok();
  });
  return status;
}

absl::Status GrpcPeerNetwork::Barrier() {
  std::unique_lock<std::mutex> lock(mu_);
  const int64_t sequence = ++barriers_;
  pb::PeerFrame frame;
  frame.mutable_barrier()->set_sequence(sequence);
  for (int p = 0; p < self_.processes; ++p) {
    if (p != self_.process) Enqueue(links_[p], frame);
  }
  return Await(lock, [sequence](const PeerInbox& inbox) { return inbox.barrier >= sequence; });
}

template <typename T>
absl::StatusOr<std::vector<T>> GrpcPeerNetwork::ExchangeFrames(absl::Span<const pb::PeerFrame> frames, const T& mine,
                                                               std::deque<T> PeerInbox::*arrived) {
  std::unique_lock<std::mutex> lock(mu_);
  for (int p = 0; p < self_.processes; ++p) {
    if (p == self_.process) continue;
    for (const pb::PeerFrame& frame : frames) Enqueue(links_[p], frame);
  }
  OF_RETURN_IF_ERROR(Await(lock, [arrived](const PeerInbox& inbox) { return !(inbox.*arrived).empty(); }));
  std::vector<T> all(self_.processes);
  all[self_.process] = mine;
  for (int p = 0; p < self_.processes; ++p) {
    if (p == self_.process) continue;
    std::deque<T>& theirs = links_[p].inbox.*arrived;
    all[p] = std::move(theirs.front());
    theirs.pop_front();
  }
  return all;
}

absl::StatusOr<std::vector<pb::PeerPlan>> GrpcPeerNetwork::Exchange(const pb::PeerPlan& mine) {
  pb::PeerFrame frame;
  *frame.mutable_plan() = mine;
  return ExchangeFrames(absl::MakeConstSpan(&frame, 1), mine, &PeerInbox::plans);
}

absl::StatusOr<std::vector<std::string>> GrpcPeerNetwork::ExchangeNotes(const std::string& mine) {
  OF_ASSIGN_OR_RETURN(const std::vector<pb::PeerFrame> frames, NoteFrames(mine));
  return ExchangeFrames(absl::MakeConstSpan(frames), mine, &PeerInbox::notes);
}

absl::StatusOr<ClockReading> GrpcPeerNetwork::CompareClock(int process) {
  std::unique_lock<std::mutex> lock(mu_);
  Link& link = links_[process];
  ClockReading best{.error_ns = INT64_MAX};
  for (int i = 0; i < kClockQuestions; ++i) {
    link.inbox.clock.reset();
    Enqueue(link, ClockQuestion());
    absl::Status gone;
    changed_.wait(lock, [&] {
      gone = interrupted_.ok() ? WhyGone(process) : interrupted_;
      return link.inbox.clock.has_value() || !gone.ok();
    });
    if (!link.inbox.clock.has_value()) return gone;
    if (link.inbox.clock->error_ns < best.error_ns) best = *link.inbox.clock;
  }
  return best;
}

void GrpcPeerNetwork::Interrupt(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  if (interrupted_.ok()) interrupted_ = status;
  changed_.notify_all();
}

}  // namespace oneflow
