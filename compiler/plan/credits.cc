#include "compiler/plan/credits.h"

#include <algorithm>
#include <cstdlib>

namespace oneflow {
namespace {

int NumLevels(const ChainGraph& chains) { return chains.chains.empty() ? 1 : chains.chains.back().level + 1; }

}  // namespace

int StageOf(const Mesh& mesh, int rank) {
  int stride = 1;
  for (size_t i = mesh.axes().size(); i-- > 0;) {
    const Axis& axis = mesh.axes()[i];
    if (axis.name == "pp") return rank / stride % axis.size;
    stride *= axis.size;
  }
  return 0;
}

int CreditsFor(const PlanInput& input, const PhysicalRegister& reg, const std::vector<PhysicalActor>& actors) {
  const PhysicalActor& producer = actors[reg.producer];
  if (reg.per_step || producer.chain < 0) return 1;
  const int stages = input.mesh.AxisSize("pp");
  const int stage = StageOf(input.mesh, producer.placement.ranks()[0]);
  const bool forward = input.chains.chains[producer.chain].part == StepPart::kForward;
  int credits = 1;
  for (int id : reg.consumers) {
    const Chain& consumer = input.chains.chains[actors[id].chain];
    const int distance = std::abs(StageOf(input.mesh, actors[id].placement.ranks()[0]) - stage);
    // To another stage: one slot per stage on the way to be written while the last one is still being read, so that
    // neighbours need not act at the same time.
    credits = std::max(credits, 1 + distance);
    // Kept from forward to backward on one stage: as many as the stage has micro-batches in flight.
    if (distance == 0 && forward && consumer.part == StepPart::kBackward) credits = std::max(credits, stages - stage);
  }
  return std::min(credits, input.micro_batches);
}

int PriorityOf(const ChainGraph& chains, const Chain& chain) {
  int urgency = 0;
  if (chain.kind == Chain::Kind::kBoxing) {
    urgency = 3;
  } else if (chain.part == StepPart::kBackward) {
    urgency = 2;
  } else if (chain.part == StepPart::kUpdate) {
    urgency = 1;
  }
  return (urgency + 1) * NumLevels(chains) - chain.level;
}

int PublisherPriority(const ChainGraph& chains) { return 5 * NumLevels(chains); }

}  // namespace oneflow
