// The acts of one step of a wait graph, one vertex each, with their waits. Actors that act together share their
// vertices.
//
//   forward act 1 ──0──► read act 1        waits for this step's act
//   forward act 0 ──1──► forward act 1     waits for that of the step before: its own turn, with a token
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/liveness.h"

namespace oneflow {

class WaitExpansion {
 public:
  struct Edge {
    int to = 0;      // waits for this act
    int tokens = 0;  // of so many steps before
    Wait why;
  };
  // kWithinStep: only edges without tokens, which is where deadlocks are.
  enum class Waits { kWithinStep, kAll };

  // Borrows the graph. REQUIRES: CheckRates is OK.
  WaitExpansion(const WaitGraph& graph, Waits waits);

  int size() const { return num_acts_; }
  const std::vector<Edge>& edges(int vertex) const { return edges_[vertex]; }
  int vertex(int actor, int act) const { return first_[actor] + act; }

 private:
  void Number();
  // `act` of `actor` waits for `other_act` of `other`, both counted from the beginning of this step; negative: of an
  // earlier step.
  void Add(int actor, int act, int other, int64_t other_act, int reg, bool credit);
  void AddRegister(int id);
  void AddOrder(const std::vector<int>& order);

  const WaitGraph& graph_;
  const Waits waits_;
  std::vector<int> first_;  // vertex of an actor's act 0
  int num_acts_ = 0;
  std::vector<std::vector<Edge>> edges_;
};

}  // namespace oneflow
