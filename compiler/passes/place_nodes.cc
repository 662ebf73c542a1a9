// Where every node lies. All axes of the mesh but "pp" are left whole: SBP divides the work along them. Along "pp":
//
//   forward     as hinted, then whatever follows lies with its furthest input; without any hint the nodes are cut into
//               contiguous stages of equal work. A later graph of the program goes where the variables it reads lie
//   variables   with their first reader
//   backward    with the forward node they differentiate
//   update      with the variable they change; what concerns no single variable (norm, learning rate) on the lowest
//               stage of its inputs
//   sources     read_data and constants (with annotations on them) are pure functions, so each stage that reads one
//               gets a copy
//   fetch       the first rank of its producer
#include <algorithm>
#include <map>
#include <set>

#include "compiler/passes/passes.h"
#include "compiler/passes/stage_partition.h"

namespace oneflow {
namespace {

constexpr absl::string_view kStageAxis = "pp";
// A stage may be so much slower than the best balance if fewer bytes then travel between stages: a cut inside a block
// moves several times what a cut between blocks does. 0.15 is what it takes to keep two blocks and a small head apart.
constexpr double kBalanceSlack = 0.15;

struct Location {
  int stage = 0;
  Placement placement;
};

class Placer {
 public:
  Placer(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        num_stages_(context.options.mesh.AxisSize(kStageAxis)),
        at_(graph.num_nodes()) {}

  absl::Status Run() {
    OF_RETURN_IF_ERROR(FindStages());
    OF_RETURN_IF_ERROR(FixVariables());
    OF_RETURN_IF_ERROR(PlaceForward());
    PlaceForwardVariables();
    OF_RETURN_IF_ERROR(PlaceBackward());
    PlaceUpdate();
    PlaceSources();
    OF_RETURN_IF_ERROR(CheckMutations());
    Write();
    return absl::OkStatus();
  }

 private:
  const Mesh& mesh() const { return context_.options.mesh; }
  NodeId Producer(ValueId value) const { return graph_.value(value).producer; }
  bool Is(NodeId id, OpKind kind) const { return context_.ops.Is(graph_.node(id).op, kind); }
  bool IsVariable(NodeId id) const { return Is(id, OpKind::kVariable); }
  bool IsSource(NodeId id) const {
    const Node& node = graph_.node(id);
    if (Is(id, OpKind::kAnnotation) && node.at.empty()) return IsSource(Producer(node.inputs[0]));
    return oneflow::IsSource(context_.ops.KindOf(node.op));
  }
  // Forward nodes that do the model's work, in topological order.
  std::vector<NodeId> ForwardWork() const {
    std::vector<NodeId> work;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (IsForward(graph_.node(id)) && !IsVariable(id) && !IsSource(id)) work.push_back(id);
    }
    return work;
  }
  const std::vector<int>& Mutated(NodeId id) const { return context_.ops.Find(graph_.node(id).op)->mutates; }

  absl::Status FindStages() {
    for (int stage = 0; stage < num_stages_; ++stage) {
      OF_ASSIGN_OR_RETURN(Placement placement, mesh().Place({{std::string(kStageAxis), stage}}));
      stages_.push_back({stage, std::move(placement)});
    }
    return absl::OkStatus();
  }

  // Where the node's own wish puts it; on `stage` if it names none.
  absl::StatusOr<Location> Hinted(NodeId id, int stage) const {
    PlacementHint hint = graph_.node(id).at;
    const auto pp =
        std::find_if(hint.begin(), hint.end(), [](const AxisCoordinate& c) { return c.axis == kStageAxis; });
    if (pp == hint.end()) {
      hint.push_back({std::string(kStageAxis), stage});
    } else {
      stage = pp->coordinate;
    }
    OF_ASSIGN_OR_RETURN_AT(Placement placement, mesh().Place(hint), Where(graph_.node(id)));
    return Location{stage, std::move(placement)};
  }

  bool NamesStage(NodeId id) const {
    for (const AxisCoordinate& coordinate : graph_.node(id).at) {
      if (coordinate.axis == kStageAxis) return true;
    }
    return false;
  }

  int StageOf(const Placement& placement) const {
    for (const Location& location : stages_) {
      if (location.placement.IndexOf(placement.ranks()[0]) >= 0) return location.stage;
    }
    return 0;
  }

  // Variables that an earlier graph or the user has placed.
  absl::Status FixVariables() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (!IsVariable(id)) continue;
      const auto fixed = context_.variables.find(graph_.node(id).name);
      if (fixed != context_.variables.end()) {
        at_[id] = Location{StageOf(fixed->second.placement), fixed->second.placement};
        follow_ = follow_ || IsForward(graph_.node(id));
      } else if (NamesStage(id)) {
        OF_ASSIGN_OR_RETURN(at_[id], Hinted(id, 0));
      }
    }
    return absl::OkStatus();
  }

  absl::Status PlaceForward() {
    const std::vector<NodeId> work = ForwardWork();
    for (NodeId id : work) follow_ = follow_ || NamesStage(id);
    if (follow_) return PlaceByFollowing(work);
    return PlaceByWork(work);
  }

  absl::Status PlaceByFollowing(const std::vector<NodeId>& work) {
    for (NodeId id : work) {
      Location location = stages_[0];
      bool found = false;
      for (ValueId input : graph_.node(id).inputs) {
        const std::optional<Location>& from = at_[Producer(input)];
        if (!from.has_value() || (found && from->stage <= location.stage)) continue;
        location = *from;
        found = true;
      }
      if (graph_.node(id).at.empty()) {
        at_[id] = std::move(location);
      } else {
        OF_ASSIGN_OR_RETURN(at_[id], Hinted(id, location.stage));
      }
    }
    return absl::OkStatus();
  }

  double Flops(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpDef& op = *context_.ops.Find(node.op);
    std::vector<TensorType> inputs, outputs;
    double elements = 0;
    for (ValueId input : node.inputs) inputs.push_back(graph_.value(input).type);
    for (ValueId output : node.outputs) {
      outputs.push_back(graph_.value(output).type);
      elements += static_cast<double>(outputs.back().shape.count());
    }
    return op.flops == nullptr ? elements : op.flops(inputs, outputs, node.attrs);
  }

  absl::Status PlaceByWork(const std::vector<NodeId>& work) {
    const int n = static_cast<int>(work.size());
    std::vector<double> cost(n);
    std::vector<int> position(graph_.num_nodes(), -1);
    for (int i = 0; i < n; ++i) {
      cost[i] = Flops(work[i]);
      position[work[i]] = i;
    }
    const std::vector<int> stage = PartitionIntoStages(cost, CrossingBytes(work, position), num_stages_, kBalanceSlack);
    for (int i = 0; i < n; ++i) {
      OF_ASSIGN_OR_RETURN(at_[work[i]], Hinted(work[i], stage[i]));
    }
    return absl::OkStatus();
  }

  // For every cut before position i: the bytes made before it and read after it. Variables and data do not cross.
  std::vector<int64_t> CrossingBytes(const std::vector<NodeId>& work, const std::vector<int>& position) const {
    std::vector<int64_t> change(work.size() + 2, 0);
    std::vector<int> last_reader(graph_.num_values(), -1);
    for (size_t i = 0; i < work.size(); ++i) {
      for (ValueId input : graph_.node(work[i]).inputs) last_reader[input] = static_cast<int>(i);
    }
    for (ValueId value = 0; value < graph_.num_values(); ++value) {
      const int made = position[Producer(value)];
      if (made < 0 || last_reader[value] <= made) continue;
      change[made + 1] += graph_.value(value).type.num_bytes();
      change[last_reader[value] + 1] -= graph_.value(value).type.num_bytes();
    }
    std::vector<int64_t> bytes(work.size() + 1, 0);
    for (size_t i = 1; i < bytes.size(); ++i) bytes[i] = bytes[i - 1] + change[i];
    return bytes;
  }

  // Each variable lies with its first reader on the lowest stage; then forward nodes that overwrite variables, and all
  // they overwrite, move to the first of these.
  void PlaceForwardVariables() {
    const std::vector<NodeId> work = ForwardWork();
    std::set<NodeId> following;  // variables without a place of their own
    for (NodeId id : work) {
      for (ValueId input : graph_.node(id).inputs) {
        const NodeId variable = Producer(input);
        if (!IsVariable(variable)) continue;
        if (!at_[variable].has_value()) {
          at_[variable] = at_[id];
          following.insert(variable);
        } else if (following.count(variable) > 0 && at_[id]->stage < at_[variable]->stage) {
          at_[variable] = at_[id];
        }
      }
    }
    for (NodeId id : work) {
      const std::vector<int>& mutated = Mutated(id);
      if (mutated.empty()) continue;
      at_[id] = at_[Producer(graph_.node(id).inputs[mutated[0]])];
      for (int index : mutated) at_[Producer(graph_.node(id).inputs[index])] = at_[id];
    }
    // What a fetch reads need not travel before it is fetched.
    for (NodeId id : work) {
      if (!Is(id, OpKind::kFetch)) continue;
      const NodeId producer = Producer(graph_.node(id).inputs[0]);
      if (at_[producer].has_value()) at_[id] = at_[producer];
    }
  }

  // A backward node is called "<forward node>/<what>".
  absl::Status PlaceBackward() {
    std::map<absl::string_view, NodeId> by_name;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) by_name[graph_.node(id).name] = id;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (!IsBackward(node) || IsSource(id)) continue;
      const absl::string_view name = node.name;
      const auto forward = by_name.find(name.substr(0, name.rfind('/')));
      if (forward == by_name.end() || !at_[forward->second].has_value()) {
        return absl::InternalError(absl::StrCat(Where(node), ": no placed forward node has its name's prefix"));
      }
      at_[id] = at_[forward->second];
    }
    return absl::OkStatus();
  }

  void PlaceUpdate() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (!IsUpdate(node) || IsVariable(id) || IsSource(id)) continue;
      at_[id] = UpdateLocation(id);
      for (ValueId input : node.inputs) {
        if (IsVariable(Producer(input)) && !at_[Producer(input)].has_value()) at_[Producer(input)] = at_[id];
      }
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (IsVariable(id) && !at_[id].has_value()) at_[id] = stages_[0];
    }
  }

  Location UpdateLocation(NodeId id) const {
    const Node& node = graph_.node(id);
    for (int index : Mutated(id)) {
      const std::optional<Location>& variable = at_[Producer(node.inputs[index])];
      if (variable.has_value()) return *variable;
    }
    const Location* lowest = nullptr;
    for (ValueId input : node.inputs) {
      const std::optional<Location>& from = at_[Producer(input)];
      if (from.has_value() && (lowest == nullptr || from->stage < lowest->stage)) lowest = &*from;
    }
    return lowest == nullptr ? stages_[0] : *lowest;
  }

  // From last to first, because an annotation reads its source.
  void PlaceSources() {
    std::set<std::string> names;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) names.insert(graph_.node(id).name);
    for (NodeId id = graph_.num_nodes() - 1; id >= 0; --id) {
      if (!IsSource(id)) continue;
      const std::vector<std::vector<NodeId>> consumers = graph_.Consumers();  // with the copies made so far
      std::vector<NodeId> readers;
      for (ValueId output : graph_.node(id).outputs) {
        readers.insert(readers.end(), consumers[output].begin(), consumers[output].end());
      }
      std::sort(readers.begin(), readers.end());
      for (NodeId reader : readers) ReadLocally(id, reader, names);
      if (!at_[id].has_value()) at_[id] = stages_[0];
    }
  }

  // Makes `reader` read the copy of `source` that lies where the reader does; the first reader's is the source itself.
  void ReadLocally(NodeId source, NodeId reader, std::set<std::string>& names) {
    if (!at_[source].has_value()) {
      at_[source] = at_[reader];
      return;
    }
    if (at_[source]->placement == at_[reader]->placement) return;
    NodeId& copy = copies_.emplace(std::make_pair(source, at_[reader]->placement.ToString()), -1).first->second;
    if (copy < 0) {
      Node node = graph_.node(source);
      const std::string stem = absl::StrCat(node.name, "/", kStageAxis, at_[reader]->stage);
      node.name = stem;
      for (int i = 2; !names.insert(node.name).second; ++i) node.name = absl::StrCat(stem, "_", i);
      std::vector<TensorType> types;
      for (ValueId output : node.outputs) types.push_back(graph_.value(output).type);
      copy = graph_.AddNode(std::move(node), types);
      for (size_t i = 0; i < types.size(); ++i) {
        graph_.value(graph_.node(copy).outputs[i]).hint = graph_.value(graph_.node(source).outputs[i]).hint;
      }
      at_.push_back(at_[reader]);
    }
    for (ValueId& input : graph_.node(reader).inputs) {
      if (Producer(input) == source) input = graph_.node(copy).outputs[graph_.value(input).output];
    }
  }

  absl::Status CheckMutations() const {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (int index : Mutated(id)) {
        const NodeId variable = Producer(graph_.node(id).inputs[index]);
        if (at_[variable]->placement == at_[id]->placement) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(Where(graph_.node(id)), ": overwrites variable '", graph_.node(variable).name, "' on ",
                         at_[variable]->placement.ToString(), " but has to run on ", at_[id]->placement.ToString()));
      }
    }
    return absl::OkStatus();
  }

  void Write() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      node.chunk = at_[id]->stage;
      node.placement = Is(id, OpKind::kFetch) ? Placement({}, {at_[id]->placement.ranks()[0]}) : at_[id]->placement;
    }
    graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
  }

  Graph& graph_;
  const PassContext& context_;
  const int num_stages_;
  bool follow_ = false;  // something says where the forward nodes go
  std::vector<Location> stages_;
  std::vector<std::optional<Location>> at_;                  // by node
  std::map<std::pair<NodeId, std::string>, NodeId> copies_;  // of a source, on a placement
};

}  // namespace

absl::StatusOr<bool> PlaceNodes(Graph& graph, PassContext& context) {
  OF_RETURN_IF_ERROR(Placer(graph, context).Run());
  return true;
}

}  // namespace oneflow
