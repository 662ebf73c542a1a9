// How processes of one host send each other messages: through rings in a memory file of the receiver, which the senders
// map.
//
//   token, cores taken | bell of thread 0 | bell of thread 1 | ... | ring of (process, address) | ring | ...
//
// Each queue of a rank has a ring for each process that sends it anything, with room for all that can be on its way: a
// slot of a register is announced to a consumer at most once before that gives it back, and given back at most once
// before it is announced again. The file begins with random bytes. Who finds others there, by the numbers that it was
// told, has opened something else and is on another host, or may not look: then messages travel over the network.
// In the file of the first process of a host all of them count the cores that they take.
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
  // `thread_of` gives for an address of this process the thread that serves it, of `num_threads`; -1 if none does.
  // REQUIRES: the program passed CheckProgram. ResourceExhausted if memory cannot be had.
  static absl::StatusOr<std::unique_ptr<MailFile>> Create(const pb::Program& program, int process, int num_threads,
                                                          const std::vector<int>& thread_of);

  // What the senders have to know.
  const pb::PeerMail& announcement() const { return announcement_; }
  CoreBudget::Taken& cores_taken();
  // What a thread sleeps at.
  Doorbell::Word& bell(int thread);
  // What other processes send a thread, with the process.
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
