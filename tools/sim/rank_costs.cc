#include "tools/sim/rank_costs.h"

#include <memory>
#include <utility>

namespace oneflow {

RankCosts PredictedRankCosts(Topology topology, const OpRegistry& ops, PricedKernels kernels) {
  RankCosts costs;
  costs.acts = [topology, kernels, &ops](const pb::Program& part, int plan) {
    const PredictedCosts predicted(part, plan, topology, ops, kernels);
    const SimulatedCosts of = predicted.Costs();
    std::vector<ActCost> acts;
    for (int a = 0; a < part.plans(plan).actors_size(); ++a) acts.push_back(of.act(a, 0));
    return acts;
  };
  costs.message_ns = [topology](int from, int to) { return PredictedMessageNs(topology, from, to); };
  return costs;
}

RankCosts Slowed(RankCosts costs, std::map<int, double> factor_of_rank) {
  RankCosts slowed = costs;
  slowed.acts = [costs = std::move(costs), factors = std::move(factor_of_rank)](const pb::Program& part, int plan) {
    std::vector<ActCost> acts = costs.acts(part, plan);
    for (int a = 0; a < part.plans(plan).actors_size(); ++a) {
      const auto it = factors.find(part.plans(plan).actors(a).rank());
      if (it == factors.end()) continue;
      for (int64_t* const ns : {&acts[a].ns, &acts[a].link_ns}) {
        *ns = static_cast<int64_t>(it->second * static_cast<double>(*ns));
      }
    }
    return acts;
  };
  return slowed;
}

}  // namespace oneflow
