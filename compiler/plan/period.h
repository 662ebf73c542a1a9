// The least period of a plan's steps: every act begins as soon as everything that it waits for is there.
//
// Every act of one step is a vertex of the wait graph (liveness.h), every wait an edge with as many tokens as it
// reaches back in steps. Around a cycle of waits all acts happen one after the other, once in as many steps as the
// cycle has tokens. So a step takes at least
//
//        sum of the acts' times          4        read ──data, 0──► compute      one slot: 4 + 5 in one step
//   max  ----------------------       read ◄──────────────────── 5               two slots: (4 + 5) / 2, but compute
//   circles  tokens                        free slot, slots tokens               alone takes 5: its own circle
//
// and no longer if nothing else keeps acts apart: the maximum cycle ratio. Only a queue of a rank, which executes one
// act at a time, does so. If its acts have an order in the graph, that is a cycle like others; if not, a step takes at
// least their sum.
//
// The cycle of the maximum is the critical one. Only a change to it makes steps shorter. One change is cheap: a slot
// more in a register whose free slots it waits for.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/liveness.h"

namespace oneflow {

struct ActTimes {
  std::vector<double> seconds;  // of one act, by actor: finite, not negative
  // Actors whose acts one queue executes, one at a time, in any order.
  std::vector<std::vector<int>> queues;
};

struct Period {
  double seconds = 0;  // of a step
  // The critical cycle: entry i waits for entry i+1, the last for the first. One entry: an actor is always busy. Empty
  // if a queue is busier, or nothing takes any time.
  std::vector<Wait> cycle;
  int tokens = 0;  // steps per round of the cycle
  int queue = -1;  // the queue that bounds the period, if one does
};

// The least period that the graph allows. Its cost is linear in the waits of a step, times the number of relevant
// tokens. REQUIRES: CheckLive is OK, `times` is of all actors.
Period BestPeriod(const WaitGraph& graph, const ActTimes& times);

// A register of the critical cycle with more slots.
struct WhatIf {
  int reg = -1;
  int slots = 0;       // that it would have
  double seconds = 0;  // the period with them
};

// One slot more for each register whose free slots the critical cycle waits for, except those that start filled, which
// are state; the shortest period first. REQUIRES: `period` is that of the graph.
std::vector<WhatIf> WhatIfOneSlotMore(const WaitGraph& graph, const ActTimes& times, const Period& period);

// "slots of 'h1/out' from 1 to 2: +38% throughput".
std::string WhatIfText(const WaitGraph& graph, const Period& period, const WhatIf& what_if);
// The bound of the period, for people: the waits of the cycle, a line each; waits that repeat act after act appear
// once.
//
//   9 ms a step
//     'load', 4 ms, waits for a free slot of 'batch', which has 1
//     'compute', 5 ms, waits for data of 'batch'
std::string PeriodText(const WaitGraph& graph, const ActTimes& times, const Period& period);

}  // namespace oneflow
