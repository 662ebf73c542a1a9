#include "compiler/passes/placement/places.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace oneflow {

absl::StatusOr<Places> Places::Create(Graph& graph, const PassContext& context) {
  Places places(graph, context);
  const int num_ranks = places.mesh_.num_stages();
  places.rank_of_stage_ = context.options.pipeline.rank_of_chunk;
  if (context.options.pipeline.num_ranks() != num_ranks) {  // it is of other plans
    places.rank_of_stage_.resize(num_ranks);
    std::iota(places.rank_of_stage_.begin(), places.rank_of_stage_.end(), 0);
  }
  for (int stage = 0; stage < static_cast<int>(places.rank_of_stage_.size()); ++stage) {
    OF_ASSIGN_OR_RETURN(Placement placement,
                        places.mesh_.Place({{places.mesh_.mesh().StageAxis(), places.rank_of_stage_[stage]}}));
    places.stages_.push_back({stage, std::move(placement)});
  }
  places.shares_ = context.options.shares;
  if (places.shares_.size() != places.stages_.size())
    places.shares_.assign(places.stages_.size(), 1);  // of other plans
  std::map<Placement, bool> here;                     // homes are few
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto fixed = context.variables.find(graph.node(id).name);
    if (!places.IsVariable(id) || fixed == context.variables.end()) continue;
    const auto [known, is_new] = here.try_emplace(fixed->second.placement, false);
    if (is_new) known->second = places.mesh_.Has(fixed->second.placement);
    places.elsewhere_[id] = !known->second;
  }
  return places;
}

int Places::StageOf(const Placement& placement) const {
  return StageFrom(0, mesh_.StageOf(placement.ranks()[0])).value_or(0);
}

std::optional<int> Places::StageFrom(int first, int coordinate) const {
  const auto it = std::find(rank_of_stage_.begin() + first, rank_of_stage_.end(), coordinate);
  if (it == rank_of_stage_.end()) return std::nullopt;
  return static_cast<int>(it - rank_of_stage_.begin());
}

std::optional<int> Places::StageFrom(int first, const Placement& placement) const {
  return StageFrom(first, mesh_.StageOf(placement.ranks()[0]));
}

bool Places::IsElsewhere(NodeId variable) const { return elsewhere_[variable]; }

absl::StatusOr<Site> Places::Wished(NodeId id, int stage) const {
  PlacementHint wish = graph_.node(id).at;
  if (wish.empty()) return stages_[stage];
  const std::string axis = mesh_.mesh().StageAxis();
  const auto it = std::find_if(wish.begin(), wish.end(), [&](const AxisCoordinate& c) { return c.axis == axis; });
  if (it == wish.end()) {
    wish.push_back({axis, rank_of_stage_[stage]});
  } else {
    stage = StageFrom(stage, it->coordinate).value_or(StageFrom(0, it->coordinate).value_or(0));
  }
  OF_ASSIGN_OR_RETURN_AT(Placement placement, mesh_.Place(wish), Where(graph_.node(id)));
  return Site{stage, std::move(placement)};
}

bool Places::WishesStage(NodeId id) const {
  const PlacementHint& wish = graph_.node(id).at;
  const std::string axis = mesh_.mesh().StageAxis();
  return std::any_of(wish.begin(), wish.end(), [&](const AxisCoordinate& c) { return c.axis == axis; });
}

bool Places::IsSource(NodeId id) const {
  while (Is(id, OpKind::kAnnotation) && graph_.node(id).at.empty()) id = Producer(graph_.node(id).inputs[0]);
  return oneflow::IsSource(op(id).kind);
}

std::vector<NodeId> Places::ForwardWork() const {
  std::vector<NodeId> work;
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    if (IsForward(graph_.node(id)) && !IsVariable(id) && !IsSource(id)) work.push_back(id);
  }
  return work;
}

}  // namespace oneflow
