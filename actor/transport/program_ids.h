// The numbers of actors and registers: within this process' program, which everything here uses, and in the whole job,
// which messages between processes use.
#pragma once

#include <optional>
#include <vector>

#include "actor/message.h"
#include "proto/program.pb.h"
#include "proto/waits.pb.h"

namespace oneflow {

// The number in the whole job of an actor of the program.
int32_t ActorId(const pb::Program& program, int plan, int32_t actor);
// The same for all waits of an actor of the program.
void NumberAsInJob(const pb::Program& program, int plan, pb::WaitingActor& actor);

class ProgramIds {
 public:
  // REQUIRES: the program passed CheckProgram.
  explicit ProgramIds(const pb::Program& program);

  // A message to another process, in its numbers. REQUIRES: actor and register are in the program.
  Message ForPeer(Message message) const;
  // A message from another process; nothing if its actor or register is not in the program.
  std::optional<Message> FromPeer(Message message) const;

 private:
  struct Plan {
    std::vector<int32_t> actors, registers;  // ids, ascending
  };
  std::vector<Plan> plans_;
};

}  // namespace oneflow
