// Collectives among the threads of one process, on host memory: what a communication library does on devices, in the
// plainest way. A call returns when all members have made it, so it blocks its rank as a library would block the rank's
// stream, and more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "actor/collective/collectives.h"
#include "kernels/copy.h"
#include "proto/program.pb.h"

namespace oneflow::testing {

class HostCollectives : public Collectives {
 public:
  explicit HostCollectives(const pb::Program& plans) {
    for (const pb::Communicator& communicator : plans.communicators()) {
      meetings_.push_back(std::make_unique<Meeting>());
      meetings_.back()->ranks.assign(communicator.ranks().begin(), communicator.ranks().end());
      meetings_.back()->calls.resize(communicator.ranks_size());
    }
  }

  absl::Status Prepare(const CollectiveCall& call, const std::vector<int>& ranks) override {
    if (meetings_[call.communicator]->ranks == ranks) return absl::OkStatus();
    return absl::InvalidArgumentError("the members are not those of the plan");
  }

  absl::Status Check() override { return absl::OkStatus(); }
  void Abort() override {
    for (const auto& meeting : meetings_) meeting->Abort();
  }

  const char* Launch(const CollectiveCall& call) override {
    Meeting& meeting = *meetings_[call.communicator];
    size_t own = 0;
    while (meeting.ranks[own] != call.rank) ++own;
    meeting.calls[own] = call;
    if (!meeting.Come()) return "the other members did not come";
    const char* error = Move(meeting.calls, static_cast<int>(own));
    // Nobody goes before all have read what the others gave.
    if (!meeting.Come()) return "the other members did not finish";
    return error;
  }

 private:
  struct Meeting {
    std::vector<int> ranks;
    std::vector<CollectiveCall> calls;  // each member writes its own

    std::mutex mu;
    std::condition_variable changed;
    size_t present = 0;
    int64_t number = 0;

    bool aborted = false;

    void Abort() {
      const std::lock_guard<std::mutex> lock(mu);
      aborted = true;
      changed.notify_all();
    }
    // False if it was aborted, or somebody is missing after a time in which a test that works is over.
    bool Come() {
      std::unique_lock<std::mutex> lock(mu);
      if (aborted) return false;
      const int64_t mine = number;
      if (++present == ranks.size()) {
        present = 0;
        ++number;
        changed.notify_all();
        return true;
      }
      changed.wait_for(lock, std::chrono::seconds(60), [&] { return number > mine || aborted; });
      return number > mine;
    }
  };

  static int64_t Size(const CollectiveCall& call) {
    return static_cast<int64_t>(SizeOf(call.in.count > 0 ? call.in.dtype : call.out.dtype));
  }

  // out = the reduction of `count` elements at `offset` of all inputs, in the order of the members.
  static const char* Combine(const std::vector<CollectiveCall>& calls, int64_t offset, int64_t count, char* out) {
    const int64_t size = Size(calls[0]), one = 1;
    for (size_t i = 0; i < calls.size(); ++i) {
      const char* error = CopyRegion({.dtype = calls[i].in.dtype,
                                      .extent = {&count, 1},
                                      .source = calls[i].in.as<char>() + offset * size,
                                      .source_stride = {&one, 1},
                                      .target = out,
                                      .target_stride = {&one, 1},
                                      .accumulate = i > 0,
                                      .reduce = calls[i].reduction});
      if (error != nullptr) return error;
    }
    return nullptr;
  }

  static const char* Move(const std::vector<CollectiveCall>& calls, int own) {
    const CollectiveCall& call = calls[own];
    const int64_t size = Size(call);
    char* out = call.out.as<char>();
    for (const CollectiveCall& other : calls) {
      if (other.kind != call.kind) return "the members make different calls";
    }
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return Combine(calls, 0, call.out.count, out);
      case CollectiveKind::kReduceScatter:
        return Combine(calls, own * call.out.count, call.out.count, out);
      case CollectiveKind::kAllGather:
        for (size_t i = 0; i < calls.size(); ++i) {
          std::memcpy(out + i * call.in.count * size, calls[i].in.data, call.in.count * size);
        }
        return nullptr;
      case CollectiveKind::kBroadcast:
        if (out != calls[0].in.data) std::memcpy(out, calls[0].in.data, call.out.count * size);
        return nullptr;
      case CollectiveKind::kExchange:
        return Receive(calls, own);
    }
    return "this call is unknown";
  }

  static const char* Receive(const std::vector<CollectiveCall>& calls, int own) {
    const int64_t size = Size(calls[own]);
    for (const PeerTransfer& mine : calls[own].transfers) {
      if (mine.receive_count == 0) continue;
      const PeerTransfer* theirs = nullptr;
      for (const PeerTransfer& x : calls[mine.peer].transfers) {
        if (x.peer == own) theirs = &x;
      }
      if (theirs == nullptr || theirs->send_count != mine.receive_count) return "a member sends something else";
      std::memcpy(calls[own].out.as<char>() + mine.receive_offset * size,
                  calls[mine.peer].in.as<char>() + theirs->send_offset * size, mine.receive_count * size);
    }
    return nullptr;
  }

  std::vector<std::unique_ptr<Meeting>> meetings_;
};

}  // namespace oneflow::testing
