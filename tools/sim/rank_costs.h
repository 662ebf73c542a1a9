// What acts and messages of ranks cost, for a plan of which one looks at some ranks at a time. Both always cost the
// same, whichever act of an actor it is.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "actor/sim/simulator.h"
#include "oneflow_core/op.h"
#include "sbp/topology.h"
#include "tools/sim/predicted_costs.h"

namespace oneflow {

struct RankCosts {
  // Of a program of some ranks, by its actors; of those on other ranks nothing is known.
  std::function<std::vector<ActCost>(const pb::Program& part, int plan)> acts;
  std::function<int64_t(int from, int to)> message_ns;  // between ranks
};

// What PredictedCosts says. Borrows `ops`.
RankCosts PredictedRankCosts(Topology topology, const OpRegistry& ops, PricedKernels kernels = PricedKernels::kOwn);

// All acts of these ranks take `factor` times as long as `costs` says.
RankCosts Slowed(RankCosts costs, std::map<int, double> factor_of_rank);

}  // namespace oneflow
