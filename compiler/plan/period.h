// How fast a plan can go at best: the period of its steps when every act begins as soon as what it waits for is there.
//
// Every act of one step is a vertex of the wait graph (liveness.h), every reason to wait an edge with as many tokens as
// it reaches back in steps. Round a circle of waits all acts happen one after the other, once in as many steps as there
// are tokens on it; so a step takes at least
//
//        sum of the acts' times          4        read ──data, 0──► compute      one slot: 4 + 5 in one step
//   max  ----------------------       read ◄──────────────────── 5               two slots: (4 + 5) / 2, but compute
//   circles  tokens                        free slot, slots tokens               alone takes 5: its own circle
//
// and no longer where nothing else keeps acts apart: the maximum cycle ratio. What does keep them apart is a queue of a
// rank, which executes one act at a time. If its acts are in an order of the graph, that is a circle like others; if
// not, a step takes at least the sum of them.
//
// The circle of the maximum is the critical one: only a change to it makes steps shorter, and of all changes one is
// cheap, a slot more in a register whose free slots it waits for.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/liveness.h"

namespace oneflow {

struct ActTimes {
  std::vector<double> seconds;  // of one act, by actor: finite, not negative
  // Actors whose acts one queue executes, one at a time, in whatever order.
  std::vector<std::vector<int>> queues;
};

struct Period {
  double seconds = 0;  // of a step
  // The critical circle: entry i waits for entry i+1, the last for the first. One entry: an actor has no time to lose.
  // Empty if a queue is busier, or nothing takes any time.
  std::vector<Wait> cycle;
  int tokens = 0;  // steps in which the circle is gone round once
  int queue = -1;  // that bounds the period, if it is that
};

// The least period that the graph allows. Its cost is linear in the waits of a step, times the number of tokens that
// matter one after the other. REQUIRES: CheckLive is OK, `times` is of all actors.
Period BestPeriod(const WaitGraph& graph, const ActTimes& times);

// A register of the critical circle with more slots.
struct WhatIf {
  int reg = -1;
  int slots = 0;       // that it would have
  double seconds = 0;  // the period with them
};

// One slot more for each register whose free slots the critical circle waits for, but for those that start filled,
// which are state; the shortest period first. REQUIRES: `period` is that of the graph.
std::vector<WhatIf> WhatIfOneSlotMore(const WaitGraph& graph, const ActTimes& times, const Period& period);

// "slots of 'h1/out' from 1 to 2: +38% throughput".
std::string WhatIfText(const WaitGraph& graph, const Period& period, const WhatIf& what_if);
// What bounds the period, for people: the waits of the circle, a line each; those that come again and again for act
// after act once.
//
//   9 ms a step
//     'load', 4 ms, waits for a free slot of 'batch', which has 1
//     'compute', 5 ms, waits for data of 'batch'
std::string PeriodText(const WaitGraph& graph, const ActTimes& times, const Period& period);

}  // namespace oneflow
