// Replaces boxings as wishes by boxings as steps. `to` nodes are dissolved first, so that a boxing behind a `to` and
// one beside it start from the same value and can share steps.
#include <map>
#include <tuple>

#include "compiler/passes/passes.h"
#include "oneflow_core/ragged.h"
#include "oneflow_core/unique_names.h"
#include "sbp/boxing.h"
#include "sbp/place_pairs.h"

namespace oneflow {
namespace {

// The paths of boxings, each computed once for all that look alike.
class Ways {
 public:
  explicit Ways(const Topology& topology) : topology_(topology), pairs_(topology) {}

  // As BoxingPath.
  absl::StatusOr<std::vector<DistType>> Find(const TensorType& type, const DistType& from, const DistType& to) {
    const int pair = pairs_.Pair(pairs_.Number(from.placement), pairs_.Number(to.placement));
    const Key key{pair, type.dtype, type.shape.dims(), from.sbp, to.sbp};
    auto it = ways_.find(key);
    if (it == ways_.end()) {
      OF_ASSIGN_OR_RETURN(std::vector<Step> way, FirstOf(type, pair, from.sbp, to.sbp));
      it = ways_.emplace(key, std::move(way)).first;
    }
    std::vector<DistType> path;
    const std::vector<int> ranks = RanksOf(from.placement, to.placement);
    for (const Step& step : it->second) {
      std::vector<int> on;
      for (int index : step.ranks) on.push_back(ranks[index]);
      path.push_back({Placement(step.axes, std::move(on)), step.sbp});
    }
    return path;
  }

 private:
  using Key = std::tuple<int, DType, std::vector<int64_t>, NdSbp, NdSbp>;
  struct Step {
    std::vector<Axis> axes;
    std::vector<int> ranks;  // as places in RanksOf
    NdSbp sbp;
  };

  static std::vector<int> RanksOf(const Placement& from, const Placement& to) {
    std::vector<int> ranks = from.ranks();
    ranks.insert(ranks.end(), to.ranks().begin(), to.ranks().end());
    return ranks;
  }

  absl::StatusOr<std::vector<Step>> FirstOf(const TensorType& type, int pair, const NdSbp& from, const NdSbp& to) {
    const Placement &source = pairs_.from(pair), &target = pairs_.to(pair);
    OF_ASSIGN_OR_RETURN(const std::vector<DistType> path, BoxingPath(type, {source, from}, {target, to}, topology_));
    std::map<int, int> place_of;  // of ranks
    const std::vector<int> ranks = RanksOf(source, target);
    for (size_t i = 0; i < ranks.size(); ++i) place_of.emplace(ranks[i], static_cast<int>(i));
    std::vector<Step> way;
    for (const DistType& dist : path) {
      way.push_back({dist.placement.axes(), {}, dist.sbp});
      for (int rank : dist.placement.ranks()) way.back().ranks.push_back(place_of.at(rank));
    }
    return way;
  }

  const Topology& topology_;
  PlacePairs pairs_;
  std::map<Key, std::vector<Step>> ways_;
};

class StepInserter {
 public:
  // `sends`: ranks send instead of reading one another's memory.
  StepInserter(Graph& graph, const OpRegistry& ops, const Topology& topology, bool sends)
      : graph_(graph),
        ops_(ops),
        sends_(sends),
        ways_(topology),
        num_nodes_(graph.num_nodes()),
        num_values_(graph.num_values()),
        names_(graph),
        steps_(graph.num_values()) {}

  // Nodes are visited in order, so the inputs of a node are final when it is visited.
  absl::Status Run() {
    std::vector<ValueId> final_value(num_values_);
    std::vector<bool> keep(num_nodes_, true);
    for (NodeId id = 0; id < num_nodes_; ++id) {
      for (ValueId& input : graph_.node(id).inputs) input = final_value[input];
      for (ValueId output : graph_.node(id).outputs) final_value[output] = output;
      const OpKind kind = ops_.KindOf(graph_.node(id).op);
      if (kind != OpKind::kAnnotation && kind != OpKind::kBoxing) continue;
      const ValueId output = graph_.node(id).outputs[0];
      OF_ASSIGN_OR_RETURN_AT(final_value[output], Way(graph_.node(id).inputs[0], id), Where(graph_.node(id)));
      keep[id] = false;
    }
    for (ValueId& loss : graph_.losses) loss = final_value[loss];
    keep.resize(graph_.num_nodes(), true);
    graph_.Rebuild(keep);
    return absl::OkStatus();
  }

 private:
  // The value that replaces the output of `node`, after steps from `value`; for a `to`, whose ends lie alike, `value`
  // itself.
  absl::StatusOr<ValueId> Way(ValueId value, NodeId node) {
    const DistType wanted = *graph_.value(graph_.node(node).outputs[0]).dist;
    const std::string name = graph_.node(node).name;  // a copy: steps are added to the graph
    return Box(value, wanted, node, name);
  }

  // The same for any value. `name` is that of the last step; earlier steps append their own type to it.
  absl::StatusOr<ValueId> Box(ValueId value, const DistType& wanted, NodeId like, const std::string& name) {
    OF_ASSIGN_OR_RETURN(const std::vector<DistType> path,
                        ways_.Find(graph_.value(value).type, *graph_.value(value).dist, wanted));
    for (const DistType& step : path) {
      OF_ASSIGN_OR_RETURN(value, Step(value, step, wanted, like, name));
    }
    return value;
  }

  // The counts of a ragged value in its layout: those that its maker reads or, for a step, those of the first value,
  // boxed likewise.
  absl::StatusOr<ValueId> Counts(ValueId value, NodeId like) {
    const NodeId maker = graph_.value(value).producer;
    const ValueId read = CountsOf(graph_, value);
    if (maker < num_nodes_) return read;
    return Box(read, CountsDist(graph_.value(value).type, *graph_.value(value).dist), like,
               names_.Make(absl::StrCat(graph_.node(maker).name, "/counts")));
  }

  // One step from `value`; an existing one if another path begins alike.
  absl::StatusOr<ValueId> Step(ValueId value, const DistType& to, const DistType& last, NodeId like,
                               const std::string& name) {
    for (ValueId known : steps_[value]) {
      if (*graph_.value(known).dist == to) return known;
    }
    Node node;
    node.op = "boxing";
    node.name = to == last ? name : names_.Make(absl::StrCat(name, "/by", ToString(to.sbp)));
    node.inputs = {value};
    if (graph_.value(value).type.is_ragged()) {
      OF_ASSIGN_OR_RETURN(const ValueId counts, Counts(value, like));
      node.inputs.push_back(counts);
      if (sends_) {
        const DistType there = CountsDist(graph_.value(value).type, to);
        OF_ASSIGN_OR_RETURN(node.inputs.emplace_back(),
                            Box(counts, there, like, names_.Make(absl::StrCat(node.name, "/counts"))));
      }
    }
    const ValueId result = AddBoxing(graph_, std::move(node), graph_.node(like), value, to, ops_);
    steps_[value].push_back(result);
    steps_.emplace_back();  // of the result
    return result;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const bool sends_;
  Ways ways_;
  const int num_nodes_, num_values_;
  UniqueNames names_;
  std::vector<std::vector<ValueId>> steps_;  // by value: the results of one step from it
};

}  // namespace

absl::StatusOr<bool> InsertBoxing(Graph& graph, PassContext& context) {
  OF_RETURN_IF_ERROR(
      StepInserter(graph, context.ops, context.topology, context.options.device != DeviceKind::kCpu).Run());
  return true;
}

}  // namespace oneflow
