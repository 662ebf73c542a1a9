#include "tools/study/sim/rank_costs.h"

#include <utility>

namespace oneflow {

ActCost RankCosts::OnRank(const PredictedAct& act, int rank) const {
  ActCost cost = PredictedCost(topology, act, rank);
  const auto it = slow.find(rank);
  if (it == slow.end()) return cost;
  for (int64_t* const ns : {&cost.ns, &cost.link_ns}) {
    *ns = static_cast<int64_t>(it->second * static_cast<double>(*ns));
  }
  return cost;
}

RankCosts PredictedRankCosts(Topology topology, const OpRegistry& ops, PricedKernels kernels) {
  RankCosts costs;
  costs.acts = [topology, kernels, &ops](const pb::Program& part, int plan) {
    return PredictedCosts(part, plan, topology, ops, kernels).acts();
  };
  costs.topology = std::move(topology);
  return costs;
}

}  // namespace oneflow
