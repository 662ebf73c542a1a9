// The numbers of actors and registers: within this process' program, by which everything here counts, and in the whole
// job, which is what messages between processes say.
#pragma once

#include <optional>
#include <vector>

#include "actor/message.h"
#include "proto/program.pb.h"

namespace oneflow {

class ProgramIds {
 public:
  // REQUIRES: the program passed CheckProgram.
  explicit ProgramIds(const pb::Program& program);

  // A message to another process, as that understands it. REQUIRES: actor and register are in the program.
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
