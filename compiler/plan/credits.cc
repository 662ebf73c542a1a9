#include "compiler/plan/credits.h"

#include <algorithm>
#include <cstdlib>

#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

int NumLevels(const ChainGraph& chains) { return chains.chains.empty() ? 1 : chains.chains.back().level + 1; }

// In a schedule: as many as are held at once between the producer, or the first reader, and the last reader; data of
// other ranks may arrive meanwhile.
int CreditsInSchedule(const PhysicalRegister& reg, const std::vector<PhysicalActor>& actors,
                      const InSchedule& schedule) {
  const int received = QueueKindOf(actors[reg.producer].queue).moves_between_ranks ? 1 : 0;
  int credits = 1;
  if (schedule.acts.empty()) return credits;
  for (const int last : reg.consumers) {
    credits = std::max(credits, schedule.acts.MostAhead(reg.producer, last));
    if (QueueKindOf(actors[reg.producer].queue).is_main) continue;
    for (const int first : schedule.readers) {
      if (first != last) credits = std::max(credits, schedule.acts.MostAhead(first, last) + received);
    }
  }
  return credits;
}

}  // namespace

int CreditsFor(const PlanInput& input, const PhysicalRegister& reg, const std::vector<PhysicalActor>& actors,
               const InSchedule& schedule) {
  const PhysicalActor& producer = actors[reg.producer];
  // Reading runs ahead of computing, and computing does not wait for fetching.
  const auto on_host = [](const PhysicalActor& actor) {
    const QueueKind& queue = QueueKindOf(actor.queue);
    return !queue.launches && !queue.of_tier;
  };
  const bool ahead = on_host(producer) || std::any_of(reg.consumers.begin(), reg.consumers.end(),
                                                      [&](int id) { return on_host(actors[id]); });
  if (reg.per_step || producer.chain < 0) return ahead ? 2 : 1;
  const auto stage_of = [&](const PhysicalActor& actor) { return input.mesh.StageOf(actor.placement.ranks()[0]); };
  const int stages = input.mesh.num_stages();
  const int stage = stage_of(producer);
  const bool forward = input.chains.chains[producer.chain].part == StepPart::kForward;
  int credits = 1;
  for (int id : reg.consumers) {
    const Chain& consumer = input.chains.chains[actors[id].chain];
    const int distance = std::abs(stage_of(actors[id]) - stage);
    // To another stage: one slot per stage on the way, to be written while the last one is still being read, so that
    // neighbours need not act at the same time.
    credits = std::max(credits, 1 + distance);
    // Kept from forward to backward on one stage: as many as the stage has micro-batches in flight.
    if (schedule.acts.empty() && distance == 0 && forward && consumer.part == StepPart::kBackward)
      credits = std::max(credits, stages - stage);
  }
  credits = std::max(credits, CreditsInSchedule(reg, actors, schedule));
  return std::min(credits, input.micro_batches) + (ahead ? 1 : 0);
}

int PriorityOf(const ChainGraph& chains, const Chain& chain) {
  if (QueueKindOf(chain.queue).of_tier) return NumLevels(chains) - chain.level;
  if (!QueueKindOf(chain.queue).launches) return chain.level;
  int urgency = 0;
  if (chain.kind == Chain::Kind::kBoxing) {
    urgency = chain.gradients ? 0 : 4;
  } else if (chain.is_stored) {
    urgency = 3;
  } else if (chain.part == StepPart::kBackward) {
    urgency = 2;
  } else if (chain.part == StepPart::kUpdate) {
    urgency = 1;
  }
  return (urgency + 1) * NumLevels(chains) - chain.level;
}

int PublisherPriority(const ChainGraph& chains) { return 6 * NumLevels(chains); }

}  // namespace oneflow
