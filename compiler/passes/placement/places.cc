#include "compiler/passes/placement/places.h"

#include <algorithm>

namespace oneflow {
namespace {

constexpr absl::string_view kStageAxis = "pp";

}  // namespace

absl::StatusOr<Places> Places::Create(Graph& graph, const PassContext& context) {
  const Mesh& mesh = context.options.mesh;
  Places places(graph, context);
  places.stage_of_rank_.assign(mesh.size(), 0);
  for (int stage = 0; stage < mesh.AxisSize(kStageAxis); ++stage) {
    OF_ASSIGN_OR_RETURN(Placement placement, mesh.Place({{std::string(kStageAxis), stage}}));
    for (const int rank : placement.ranks()) places.stage_of_rank_[rank] = stage;
    places.stages_.push_back({stage, std::move(placement)});
  }
  return places;
}

int Places::StageOf(const Placement& placement) const {
  const int rank = placement.ranks()[0];
  return rank < static_cast<int>(stage_of_rank_.size()) ? stage_of_rank_[rank] : 0;
}

absl::StatusOr<Location> Places::Wished(NodeId id, int stage) const {
  PlacementHint wish = graph_.node(id).at;
  if (wish.empty()) return stages_[stage];
  const auto it = std::find_if(wish.begin(), wish.end(), [](const AxisCoordinate& c) { return c.axis == kStageAxis; });
  if (it == wish.end()) {
    wish.push_back({std::string(kStageAxis), stage});
  } else {
    stage = it->coordinate;
  }
  OF_ASSIGN_OR_RETURN_AT(Placement placement, context_.options.mesh.Place(wish), Where(graph_.node(id)));
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
