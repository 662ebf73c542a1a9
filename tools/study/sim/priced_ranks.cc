#include "tools/study/sim/priced_ranks.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace oneflow {

PricedRanks::PricedRanks(const pb::PlanSet& set, const PartPrograms& programs, int plan, RankCosts costs)
    : programs_(programs),
      plan_(set.plans(plan)),
      plan_index_(plan),
      costs_(std::move(costs)),
      shares_(programs.reader().topology()),
      boxings_(plan_, programs.reader(), shares_),
      outline_(set, boxings_, costs_.topology) {}

absl::StatusOr<PricedRank> PricedRanks::Of(int rank) {
  PricedRank out;
  OF_ASSIGN_OR_RETURN(out.outline, outline_.Of(rank));
  const auto is_new = [this](const OutlinedActor& actor) {
    if (actor.kind >= static_cast<int>(prices_.size())) prices_.resize(actor.kind + 1);
    return !prices_[actor.kind].has_value();
  };
  // All are looked at, so that there is room for all.
  if (std::count_if(out.outline.actors.begin(), out.outline.actors.end(), is_new) > 0) {
    OF_RETURN_IF_ERROR(Price(out.outline));
  }
  FarReads far(boxings_);
  for (const OutlinedActor& actor : out.outline.actors) {
    out.costs.push_back(costs_.OnRank(*prices_[actor.kind], rank));
    OF_ASSIGN_OR_RETURN(out.landings.emplace_back(), LandingsOf({actor.actor, rank}, far));
  }
  return out;
}

// Actors of one kind are sent as much, but which rank sends how much may differ.
absl::StatusOr<std::vector<PricedLanding>> PricedRanks::LandingsOf(const Instance& reader, FarReads& far) const {
  std::vector<PricedLanding> priced;
  OF_ASSIGN_OR_RETURN(const std::vector<FarReads::Landing>* const landings, far.LandingsOf(reader));
  for (const FarReads::Landing& landing : *landings) {
    const int from = programs_.reader().grid(plan_.registers(landing.reg).grid()).ranks()[landing.index];
    priced.push_back({landing.reg, landing.index, costs_.ShipmentNs(from, reader.rank, landing.payload->num_bytes),
                      costs_.SenderLink(from, reader.rank, from)});
  }
  return priced;
}

absl::Status PricedRanks::Price(const RankOutline& outline) {
  ++num_spelled_;
  google::protobuf::Arena arena;  // taking a program apart piece by piece takes as long as spelling it
  pb::Program& part = *google::protobuf::Arena::CreateMessage<pb::Program>(&arena);
  OF_RETURN_IF_ERROR(programs_.Spell({outline.rank}, part));
  const std::vector<PredictedAct> acts = costs_.acts(part, plan_index_);
  absl::flat_hash_map<int, int> place;  // by number in the job
  const auto& actors = part.plans(plan_index_).actors();
  for (int a = 0; a < actors.size(); ++a) place[actors[a].id()] = a;
  const InstanceIds ids(plan_, programs_.reader());
  for (const OutlinedActor& actor : outline.actors) {
    prices_[actor.kind] = acts[place.at(ids.OfActor({actor.actor, outline.rank}))];
  }
  return absl::OkStatus();
}

}  // namespace oneflow
