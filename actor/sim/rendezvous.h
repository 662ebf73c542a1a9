// The actors of a plan that act together: members of one collective, or of several with a common member. Act n of all
// of them is one event.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace oneflow {

class Rendezvous {
 public:
  // `stands_for`, unless null: by rank, the rank that stands for it (SimulatedCosts).
  Rendezvous(const pb::Program& program, int plan, const std::vector<int>* stands_for);

  // An actor begins its act. Returns all who begin with it, itself among them, ascending, once the last has come; until
  // then nobody. An actor that meets nobody begins alone. The result is valid until the next call.
  const std::vector<int32_t>& Come(int32_t actor);
  // Of those whom an actor meets, those who have not come.
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
