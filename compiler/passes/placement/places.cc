#include "compiler/passes/placement/places.h"

#include <algorithm>
#include <map>

namespace oneflow {
namespace {

constexpr absl::string_view kStageAxis = "pp";

}  // namespace

absl::StatusOr<Places> Places::Create(Graph& graph, const PassContext& context) {
  Places places(graph, context);
  for (int stage = 0; stage < places.mesh_.mesh().AxisSize(kStageAxis); ++stage) {
    OF_ASSIGN_OR_RETURN(Placement placement, places.mesh_.Place({{std::string(kStageAxis), stage}}));
    places.stages_.push_back({stage, std::move(placement)});
  }
  std::map<Placement, bool> here;  // homes are few
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto fixed = context.variables.find(graph.node(id).name);
    if (!places.IsVariable(id) || fixed == context.variables.end()) continue;
    const auto [known, is_new] = here.try_emplace(fixed->second.placement, false);
    if (is_new) known->second = places.mesh_.Has(fixed->second.placement);
    places.elsewhere_[id] = !known->second;
  }
  return places;
}

int Places::StageOf(const Placement& placement) const { return mesh_.CoordinateOf(placement.ranks()[0], kStageAxis); }

bool Places::IsElsewhere(NodeId variable) const { return elsewhere_[variable]; }

absl::StatusOr<Location> Places::Wished(NodeId id, int stage) const {
  PlacementHint wish = graph_.node(id).at;
  if (wish.empty()) return stages_[stage];
  const auto it = std::find_if(wish.begin(), wish.end(), [](const AxisCoordinate& c) { return c.axis == kStageAxis; });
  if (it == wish.end()) {
    wish.push_back({std::string(kStageAxis), stage});
  } else {
    stage = it->coordinate;
  }
  OF_ASSIGN_OR_RETURN_AT(Placement placement, mesh_.Place(wish), Where(graph_.node(id)));
  return Location{stage, std::move(placement)};
}

bool Places::WishesStage(NodeId id) const {
  const PlacementHint& wish = graph_.node(id).at;
  return std::any_of(wish.begin(), wish.end(), [](const AxisCoordinate& c) { return c.axis == kStageAxis; });
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
