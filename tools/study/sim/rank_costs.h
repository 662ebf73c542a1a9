// What acts and messages of ranks cost, for a plan of which one looks at some ranks at a time. Both always cost the
// same, whichever act of an actor it is.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "actor/sim/simulator.h"
#include "oneflow_core/op.h"
#include "sbp/topology.h"
#include "tools/study/sim/predicted_costs.h"

namespace oneflow {

struct RankCosts {
  Topology topology;
  // Of a program of some ranks, by its actors; of those on other ranks nothing is known. Alike for actors of one kind
  // (compiler/lower/rank_outline.h), as far as the topology says.
  std::function<std::vector<PredictedAct>(const pb::Program& part, int plan)> acts;
  std::map<int, double> slow;  // by rank: all of its acts take so many times as long

  ActCost OnRank(const PredictedAct& act, int rank) const;
  int64_t MessageNs(int from, int to) const { return PredictedMessageNs(topology, from, to); }
  int64_t ShipmentNs(int from, int to, int64_t num_bytes) const {
    return PredictedShipmentNs(topology, from, to, num_bytes);
  }
  int64_t SenderLink(int from, int to, int sender) const { return PredictedSenderLink(topology, from, to, sender); }
};

// What PredictedCosts says. Borrows `ops`.
RankCosts PredictedRankCosts(Topology topology, const OpRegistry& ops, PricedKernels kernels = PricedKernels::kOwn);

}  // namespace oneflow
