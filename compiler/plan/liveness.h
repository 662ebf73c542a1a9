// The wait graph of a plan and the proof that it is free of deadlock.
//
// An act waits for three things: the act of the same actor before it, a filled slot at each input, a free slot at each
// output. Steps repeat, so every act of one step is a vertex, and every reason to wait is an edge with as many tokens
// as it reaches back in steps (a register of 2 slots per step lets its writer wait for the reader of the step before
// last: 2 tokens):
//
//        filled, 0 tokens
//   F ────────────────────► B        with one slot and one act per step: F waits for B of the step before: 1 token.
//     ◄────────────────────          The circle F → B → F holds a token: live.
//        freed, 1 token
//
// Where ranks make calls together (collectives), none of them goes on before all have come: those acts are one vertex,
// which waits for whatever any of them waits for. And each rank launches its calls in a given order: an edge from each
// to the one before.
//
// An actor of this graph may stand for its instances on many ranks. Every cycle of waits among ranks then lies on a
// closed walk of this graph with the same tokens, so that a proof here holds for all ranks. It is stricter where ranks
// of one actor wait for one another in a line: the line is a circle here; and where calls of one actor are made by
// groups that have no rank in common: they are one event here. No plan of the compiler has the first, since what a
// chain waits for lies on a lower level, and its orders of calls come from one sequence of such events.
//
// A plan is live exactly if every cycle holds a token. Playing one step with counters says the same in another way; the
// two implementations below share nothing but the graph, and must agree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/status.h"

namespace oneflow {

struct WaitGraph {
  struct Actor {
    std::string name;
    int acts_per_step = 1;
  };
  struct Port {
    int actor = -1;
    int acts_per_slot = 1;
  };
  struct Register {
    std::string name;
    Port producer;
    std::vector<Port> consumers;
    int slots = 1;
    int initially_filled = 0;
  };
  std::vector<Actor> actors;
  std::vector<Register> registers;
  // Groups of actors of which act n is one event for all.
  std::vector<std::vector<int>> together;
  // Sequences of acts, those of one step: each waits for the one before, the first for the last of the step before.
  // Each names its actors once per act; an actor may be in several.
  std::vector<std::vector<int>> orders;
};

// One act waiting for another within the same step.
struct Wait {
  int actor = -1;
  int act = 0;
  int reg = -1;         // because of this register; -1: for its turn, among its own acts or in an order
  bool credit = false;  // for a free slot of it, else for a filled one
  int on = -1;          // the actor that it waits for; the next entry may be one that acts together with it
  int on_act = 0;
};

// InvalidArgument, naming the register and both rates, unless every register is filled as often as each reader empties
// it, acts and slots are positive, and no more slots start filled than there are; or, naming the actor, if it is in two
// groups or orders, acts less often than another of its group, or is not ordered once per act.
absl::Status CheckRates(const WaitGraph& graph);

// (a) Plays one step with counters, every actor acting when it can. FailedPrecondition, naming actors that are stuck,
// if the marking does not come back to what it was. REQUIRES: CheckRates is OK.
absl::Status SimulateStep(const WaitGraph& graph);

// (b) A cycle without a token, or nothing; entry i waits for entry i+1, the last for the first. It is a shortest one
// where the search for that stays cheap (some 10^5 stuck acts); beyond, a short one. REQUIRES: as above.
std::optional<std::vector<Wait>> FindDeadCycle(const WaitGraph& graph);

// All three. FailedPrecondition with that bad cycle by actor names and the credit that would break it; Internal
// if (a) and (b) disagree.
absl::Status CheckLive(const WaitGraph& graph);

}  // namespace oneflow
