// Places every node. All axes of the mesh but that of stages stay whole: SBP divides the work along them. Along it:
//
//   forward     as hinted; other nodes follow their furthest input. Without any hint the nodes are cut into contiguous
//               stages of equal work. A later graph of the program goes to the places of the variables that it reads,
//               unless they lie on another mesh
//   variables   with their first reader
//   backward    with the forward node that they serve; nodes that serve only a variable lie with it
//   update      with the variable that they change; nodes of no single variable (norm, learning rate) on the lowest
//               stage of their inputs
//   sources     read_data and constants (with annotations on them) are pure functions, so each stage that reads one
//               gets a copy
//   homes       variables that an earlier graph has placed on another mesh stay there and are read through a `to`
//   fetch       the first rank of its producer
//
// Each of these is a rule with a file of its own in placement/.
#include "compiler/passes/placement/followers.h"
#include "compiler/passes/placement/forward.h"
#include "compiler/passes/placement/homes.h"
#include "compiler/passes/placement/sources.h"
#include "compiler/passes/placement/variables.h"

namespace oneflow {
namespace {

// By node: whether it lies on one rank. So do variables that such a node overwrites.
std::vector<bool> OnOneRank(const Places& places) {
  const Graph& graph = places.graph();
  std::vector<bool> alone(graph.num_nodes(), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (!RunsOnOneRank(places.op(id))) continue;
    alone[id] = true;
    for (const int input : places.op(id).mutates) alone[places.Producer(graph.node(id).inputs[input])] = true;
  }
  return alone;
}

void Write(const Places& places) {
  Graph& graph = places.graph();
  const std::vector<bool> alone = OnOneRank(places);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Site& location = *places.at(id);
    graph.node(id).chunk = location.stage;
    graph.node(id).placement = alone[id] ? Placement({}, {location.placement.ranks()[0]}) : location.placement;
  }
  graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
}

}  // namespace

absl::StatusOr<bool> PlaceNodes(Graph& graph, PassContext& context) {
  OF_ASSIGN_OR_RETURN(Places places, Places::Create(graph, context));
  OF_RETURN_IF_ERROR(PlaceFixedVariables(places));
  OF_RETURN_IF_ERROR(PlaceForward(places));
  OF_RETURN_IF_ERROR(PlaceReadVariables(places));
  OF_RETURN_IF_ERROR(PlaceBackward(places));
  PlaceUpdate(places);
  CopySources(places);
  ReadFromHomes(places);
  OF_RETURN_IF_ERROR(CheckMutations(places));
  Write(places);
  return true;
}

}  // namespace oneflow
