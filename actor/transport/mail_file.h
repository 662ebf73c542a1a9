// Messages between processes of one host: rings in a memory file of the receiver, which the senders map.
//
//   token, cores taken | bell of thread 0 | bell of thread 1 | ... | ring of (process, address) | ring | ...
//
// Each queue of a rank has a ring for each process that sends to it. A ring has room for everything that can be on its
// way: between two announcements of a slot its consumer gives it back once, and the other way round. The file begins
// with random bytes. A process that finds other bytes, at the numbers it was told, has opened another file: it is on
// another host, or has no access. Then messages travel over the network. In the file of the first process of a host all
// of its processes count the cores that they take.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "actor/core_budget.h"
#include "actor/doorbell.h"
#include "actor/memory.h"
#include "actor/transport/message_ring.h"
#include "oneflow_core/status.h"
#include "proto/peer.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

// The file of this process.
class MailFile {
 public:
  // `thread_of` maps an address of this process to the thread that serves it, of `num_threads`; -1 if none does.
  // REQUIRES: the program passed CheckProgram. ResourceExhausted if memory cannot be had.
  static absl::StatusOr<std::unique_ptr<MailFile>> Create(const pb::Program& program, int process, int num_threads,
                                                          const std::vector<int>& thread_of);

  // The information that senders need.
  const pb::PeerMail& announcement() const { return announcement_; }
  CoreBudget::Taken& cores_taken();
  // The doorbell of a thread.
  Doorbell::Word& bell(int thread);
  // The rings of a thread, each with its sending process.
  std::vector<std::pair<int, RingReader>> ReadersOf(int thread);

 private:
  struct Ring {
    int process, thread;
    int64_t offset;
    uint32_t capacity;
  };
  explicit MailFile(SharedMemory memory) : memory_(std::move(memory)) {}

  SharedMemory memory_;
  std::vector<Ring> rings_;
  pb::PeerMail announcement_;
};

// The file of another process, as far as `process` writes there.
class PeerMailFile {
 public:
  // FailedPrecondition or Unavailable, saying why, if that file cannot be opened from here. InvalidArgument if the
  // announcement makes no sense.
  static absl::StatusOr<std::unique_ptr<PeerMailFile>> Map(const pb::PeerMail& mail, int process);

  CoreBudget::Taken& cores_taken();
  // Null if nothing goes to that address.
  RingWriter* WriterTo(int address) {
    const auto it = writers_.find(address);
    return it == writers_.end() ? nullptr : it->second.get();
  }

 private:
  explicit PeerMailFile(SharedMemory memory) : memory_(std::move(memory)) {}

  SharedMemory memory_;
  std::map<int, std::unique_ptr<RingWriter>> writers_;  // by address
};

}  // namespace oneflow
