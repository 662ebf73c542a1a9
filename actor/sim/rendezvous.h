// Which actors of a plan act together: those that take part in one collective, or in several that have a member in
// common. Act n of all of them is one event.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace oneflow {

class Rendezvous {
 public:
  // `stands_for`, unless null: by rank, who stands for it (SimulatedCosts).
  Rendezvous(const pb::Program& program, int plan, const std::vector<int>* stands_for);

  // An actor begins its act. All who begin with it, itself among them, once the last has come, ascending; until then
  // nobody. Who meets nobody begins alone. The result is good until the next call.
  const std::vector<int32_t>& Come(int32_t actor);
  // Of those whom an actor meets, who has not come.
  std::vector<int32_t> Missing(int32_t actor) const;

 private:
  struct Group {
    size_t size = 0;
    std::vector<int32_t> here;
  };

  std::vector<int32_t> group_of_;  // by actor; negative: it meets nobody
  std::vector<Group> groups_;
  std::vector<int32_t> beginning_;
};

}  // namespace oneflow
