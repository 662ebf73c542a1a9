// The wait graph of a plan and the proof that it is free of deadlock.
//
// An act waits for three things: the act of the same actor before it, a filled slot at each input, a free slot at each
// output. Steps repeat. So every act of one step is a vertex, and every wait an edge. The edge has as many tokens as it
// reaches back in steps (with 2 slots per step a writer waits for the reader of the step before last: 2 tokens):
//
//        filled, 0 tokens
//   F ────────────────────► B        with one slot and one act per step: F waits for B of the step before: 1 token.
//     ◄────────────────────          The circle F → B → F holds a token: live.
//        freed, 1 token
//
// Where ranks make calls together (collectives), none goes on before all have come. Those acts are one vertex, with the
// waits of all of them. Each rank launches its calls in a given order: an edge from each call to the one before.
//
// An actor of this graph may stand for its instances on many ranks. Every cycle of waits among ranks then projects onto
// a closed walk of this graph with the same tokens, so a proof here holds for all ranks. It is stricter in two cases.
// Ranks of one actor that wait for one another in a line are a cycle here. Calls of one actor by groups without a
// common rank are one event here. No plan of the compiler has the first, since a chain waits for lower levels only; its
// orders of calls come from one sequence of such events.
//
// A plan is live exactly if every cycle holds a token. Playing one step with counters is an equivalent test. The two
// implementations below share nothing but the graph, and must agree.
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
  // Groups of actors whose acts n are one event for all.
  std::vector<std::vector<int>> together;
  // Sequences of acts of one step: each waits for the one before, the first for the last of the step before. A sequence
  // names an actor once per act; an actor may be in several.
  std::vector<std::vector<int>> orders;
};

// One act waiting for another within the same step.
struct Wait {
  int actor = -1;
  int act = 0;
  int reg = -1;         // because of this register; -1: for its turn, after its own act or in an order
  bool credit = false;  // for a free slot, else for a filled one
  int on = -1;          // the actor that it waits for; the next entry may be one that acts together with it
  int on_act = 0;
};

// InvalidArgument, naming the register and both rates, unless every register is filled as often as each reader empties
// it, acts and slots are positive, and no more slots start filled than there are. InvalidArgument, naming the actor, if
// it is in two groups or orders, acts less often than another of its group, or does not stand once per act in its
// order.
absl::Status CheckRates(const WaitGraph& graph);

// (a) Plays one step with counters, every actor acting when it can. FailedPrecondition, naming actors that are stuck,
// if the marking does not return to its start. REQUIRES: CheckRates is OK.
absl::Status SimulateStep(const WaitGraph& graph);

// (b) A cycle without a token, or nothing; entry i waits for entry i+1, the last for the first. It is a shortest one
// where the search for that stays cheap (some 10^5 stuck acts); beyond, a short one. REQUIRES: as above.
std::optional<std::vector<Wait>> FindDeadCycle(const WaitGraph& graph);

// All three. FailedPrecondition with the dead cycle by actor names and the credit that would break it; Internal if (a)
// and (b) disagree.
absl::Status CheckLive(const WaitGraph& graph);

}  // namespace oneflow
