#include "compiler/passes/placement/forward.h"

#include <algorithm>
#include <optional>

#include "compiler/node_view.h"
#include "compiler/passes/placement/stage_partition.h"

namespace oneflow {
namespace {

// How much slower than the best balance a stage may be if fewer bytes then travel between stages. Counted operations
// predict the time of a stage no better than this, so a finer balance would not be real, while a cut inside a block
// instead of between two moves several times the bytes.
constexpr double kBalanceSlack = 0.15;

// --- cutting into stages -------------------------------------------------------------------------------------------

// For every cut before position i of `work`: the bytes made before it and read after it. Variables and data do not
// cross.
std::vector<int64_t> CrossingBytes(const Graph& graph, const std::vector<NodeId>& work) {
  std::vector<int> last_reader(graph.num_values(), -1);
  for (size_t i = 0; i < work.size(); ++i) {
    for (ValueId input : graph.node(work[i]).inputs) last_reader[input] = static_cast<int>(i);
  }
  std::vector<int64_t> change(work.size() + 2, 0);
  for (size_t made = 0; made < work.size(); ++made) {
    for (ValueId value : graph.node(work[made]).outputs) {
      if (last_reader[value] < 0) continue;
      change[made + 1] += graph.value(value).type.num_bytes();
      change[last_reader[value] + 1] -= graph.value(value).type.num_bytes();
    }
  }
  std::vector<int64_t> bytes(work.size() + 1, 0);
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] = bytes[i - 1] + change[i];
  return bytes;
}

absl::Status PlaceByWork(Places& places, const std::vector<NodeId>& work) {
  std::vector<double> cost;
  for (NodeId id : work) {
    cost.push_back(NodeView(places.graph(), places.graph().node(id), places.op(id)).work().flops);
  }
  const std::vector<int> stage =
      PartitionIntoStages(cost, CrossingBytes(places.graph(), work), places.shares(), kBalanceSlack);
  for (size_t i = 0; i < work.size(); ++i) {
    OF_ASSIGN_OR_RETURN(Site location, places.Wished(work[i], stage[i]));
    places.Put(work[i], std::move(location));
  }
  return absl::OkStatus();
}

// --- following -----------------------------------------------------------------------------------------------------

// The later stage with the variables of the node, if there is one: a rank may hold several.
Site WithItsVariables(const Places& places, NodeId id, Site furthest) {
  for (ValueId input : places.graph().node(id).inputs) {
    const NodeId producer = places.Producer(input);
    if (!places.IsVariable(producer) || places.IsElsewhere(producer) || !places.at(producer).has_value()) continue;
    const Placement& there = places.at(producer)->placement;
    if (there == furthest.placement) return furthest;
    if (const std::optional<int> stage = places.StageFrom(furthest.stage, there)) return places.stage(*stage);
  }
  return furthest;
}

// By node: whether it depends on variables only that follow their readers, without a wish of its own. It then follows
// its readers as they do: a weight in another type, or under an annotation.
std::vector<bool> Weights(const Places& places, const std::vector<NodeId>& work) {
  const Graph& graph = places.graph();
  std::vector<bool> weights(graph.num_nodes(), false);
  for (NodeId id : work) {
    const auto follows = [&](ValueId input) {
      const NodeId producer = places.Producer(input);
      return weights[producer] || (places.IsVariable(producer) && !places.at(producer).has_value());
    };
    const std::vector<ValueId>& inputs = graph.node(id).inputs;
    weights[id] = graph.node(id).at.empty() && !inputs.empty() && places.op(id).mutates.empty() &&
                  std::all_of(inputs.begin(), inputs.end(), follows);
  }
  return weights;
}

// With the first reader on the lowest stage, as variables do.
void PlaceWithReaders(Places& places, const std::vector<NodeId>& work, const std::vector<bool>& weights) {
  const std::vector<std::vector<NodeId>> readers = places.graph().Consumers();
  for (auto id = work.rbegin(); id != work.rend(); ++id) {
    if (!weights[*id]) continue;
    const Site* first = nullptr;
    for (ValueId output : places.graph().node(*id).outputs) {
      for (const NodeId reader : readers[output]) {
        const std::optional<Site>& at = places.at(reader);
        if (at.has_value() && (first == nullptr || at->stage < first->stage)) first = &*at;
      }
    }
    places.Put(*id, first == nullptr ? places.stage(0) : *first);
  }
}

// With the furthest input, unless the node's own wish says otherwise.
absl::Status PlaceByFollowing(Places& places, const std::vector<NodeId>& work) {
  const std::vector<bool> weights = Weights(places, work);
  for (NodeId id : work) {
    if (weights[id]) continue;
    const Site* furthest = nullptr;
    for (ValueId input : places.graph().node(id).inputs) {
      const NodeId producer = places.Producer(input);
      if (places.IsVariable(producer) && places.IsElsewhere(producer)) continue;  // it is brought to its readers
      const std::optional<Site>& from = places.at(producer);
      if (from.has_value() && (furthest == nullptr || from->stage > furthest->stage)) furthest = &*from;
    }
    Site location = furthest == nullptr ? places.stage(0) : WithItsVariables(places, id, *furthest);
    if (!places.graph().node(id).at.empty()) {
      OF_ASSIGN_OR_RETURN(location, places.Wished(id, location.stage));
    }
    places.Put(id, std::move(location));
  }
  PlaceWithReaders(places, work, weights);
  return absl::OkStatus();
}

}  // namespace

absl::Status PlaceForward(Places& places) {
  const std::vector<NodeId> work = places.ForwardWork();
  const bool wished = std::any_of(work.begin(), work.end(), [&](NodeId id) { return places.WishesStage(id); });
  bool placed = false, elsewhere = false;  // some variable, by an earlier graph
  for (NodeId id = 0; id < places.graph().num_nodes(); ++id) {
    if (!places.IsVariable(id) || !IsForward(places.graph().node(id))) continue;
    placed = placed || places.context().variables.count(places.graph().node(id).name) > 0;
    elsewhere = elsewhere || places.IsElsewhere(id);
  }
  if (wished && !places.context().options.shares.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph '", places.graph().name(),
                     "': stages have shares of the work, but the model says itself on which stage nodes lie"));
  }
  const bool follow = wished || (placed && !elsewhere);
  return follow ? PlaceByFollowing(places, work) : PlaceByWork(places, work);
}

}  // namespace oneflow
