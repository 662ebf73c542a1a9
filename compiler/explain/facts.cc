#include "compiler/explain/facts.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/explain/gradients.h"
#include "compiler/explain/origins.h"
#include "compiler/job_graphs.h"

namespace oneflow {
namespace {

int Acts(const GraphFacts& facts, Rate rate) { return rate == Rate::kMicroBatch ? facts.micro_batches : 1; }

std::map<std::string, NodeId> NodesByName(const Graph& graph) {
  std::map<std::string, NodeId> nodes;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) nodes.emplace(graph.node(id).name, id);
  return nodes;
}

// Axes of more than one rank that both placements have and that the boxing changes.
std::vector<std::string> ChangedAxes(const DistType& from, const DistType& to) {
  std::vector<std::string> names;
  for (int a = 0; a < from.placement.num_axes(); ++a) {
    const Axis& axis = from.placement.axes()[a];
    const auto& others = to.placement.axes();
    const auto match = std::find(others.begin(), others.end(), axis);
    if (match == others.end() || axis.size == 1) continue;
    if (to.sbp[match - others.begin()] != from.sbp[a]) names.push_back(axis.name);
  }
  return names;
}

// The reads of the destinations from other ranks.
LinkBytes BytesRead(const TensorType& type, const BoxingStep& step, const Topology& topology) {
  LinkBytes bytes{.at_most = type.is_ragged()};
  for (size_t d = 0; d < step.pieces.size(); ++d) {
    const int to = step.to.placement.ranks()[d];
    for (const BoxingPiece& piece : step.pieces[d]) {
      const int from = step.from.placement.ranks()[piece.source];
      if (from == to) continue;
      const int64_t size = piece.region.count() * static_cast<int64_t>(SizeOf(type.dtype));
      const Distance distance = topology.Between(from, to);
      (distance == Distance::kProcess ? bytes.same_process
       : distance == Distance::kHost  ? bytes.same_host
                                      : bytes.between_hosts) += size;
    }
  }
  return bytes;
}

// Gathers the boxings of one boxed graph.
class BoxingCollector {
 public:
  BoxingCollector(GraphFacts& facts, const Topology& topology, CostModel& costs)
      : facts_(facts), graph_(facts.boxed), topology_(topology), costs_(costs), readers_(graph_.Consumers()) {
    facts_.boxing_of_value.assign(graph_.num_values(), -1);
  }

  void Run() {
    for (ValueId value = 0; value < graph_.num_values(); ++value) {
      if (!IsBoxing(graph_.value(value).producer)) Collect(value, value);
    }
  }

 private:
  bool IsBoxing(NodeId node) const { return facts_.Is(graph_.node(node), OpKind::kBoxing); }

  // Whether a boxing ends at `value`: an op reads it, or the path forks.
  bool EndsAt(ValueId value) const { return readers_[value].size() != 1 || !IsBoxing(readers_[value][0]); }

  void Collect(ValueId tensor, ValueId from) {
    for (NodeId reader : readers_[from]) {
      if (!IsBoxing(reader)) continue;
      BoxingFacts boxing;
      boxing.tensor = tensor;
      boxing.from = from;
      boxing.acts = Acts(facts_, graph_.node(reader).rate);
      for (NodeId node = reader;; node = readers_[boxing.to][0]) {
        boxing.steps.push_back(Step(node));
        boxing.bytes += boxing.steps.back().bytes;
        boxing.to = graph_.node(node).outputs[0];
        if (EndsAt(boxing.to)) break;
      }
      const TensorType& type = graph_.value(tensor).type;
      boxing.seconds = costs_.Boxing(costs_.TypeId(type), costs_.DistId(*graph_.value(from).dist),
                                     costs_.DistId(*graph_.value(boxing.to).dist), Travel(tensor));
      facts_.boxing_of_value[boxing.to] = static_cast<int>(facts_.boxings.size());
      const ValueId to = boxing.to;
      facts_.boxings.push_back(std::move(boxing));
      Collect(tensor, to);
    }
  }

  // As in selection.
  CostModel::Travel Travel(ValueId tensor) const {
    const ValueId placed = facts_.placed_value_of[tensor];
    return placed < 0 ? CostModel::Travel::kAlone : TravelOf(facts_.placed, placed, facts_.placed_readers);
  }

  // REQUIRES: the graph keeps the contract of boxed_graph.h, so that the node is one step.
  BoxingStepFacts Step(NodeId node) const {
    const Value &from = graph_.value(graph_.node(node).inputs[0]), &to = graph_.value(graph_.node(node).outputs[0]);
    const BoxingStep step = *OneBoxingStep(from.type, *from.dist, *to.dist, topology_);
    return {node, step.collective, ChangedAxes(step.from, step.to), BytesRead(from.type, step, topology_),
            Seconds(from.type, step, topology_)};
  }

  GraphFacts& facts_;
  const Graph& graph_;
  const Topology& topology_;
  CostModel& costs_;
  const std::vector<std::vector<NodeId>> readers_;
};

// The options of selection, in the order in which CandidateFinder is asked.
absl::Status FindCandidates(const OpRegistry& ops, RingUse rings, GraphFacts& facts) {
  CandidateFinder finder(facts.placed, ops, OwnValues(), rings);
  for (NodeId id = 0; id < facts.placed.num_nodes(); ++id) {
    const Node& node = facts.placed.node(id);
    if (facts.Is(node, OpKind::kVariable) && facts.fixed.count(node.name) > 0) {
      facts.candidates.push_back({facts.chosen[id]});
      continue;
    }
    OF_ASSIGN_OR_RETURN(std::vector<Layout> layouts, finder.Find(id));
    facts.candidates.push_back(std::move(layouts));
  }
  return absl::OkStatus();
}

// Runs the passes and keeps the states of the graph; `selected` is the one behind selection. Internal if the pipeline
// has no such passes.
absl::Status RunAndKeep(const Graph& graph, const JobFacts& job, VariableDists& variables, GraphFacts& facts,
                        Graph& selected) {
  constexpr absl::string_view kDifferentiates = "autodiff", kSelects = "select-sbp";
  int kept = 0;
  Graph before;
  const PassObserver observer = [&](absl::string_view pass, const Graph& after) {
    if (pass == kDifferentiates) facts.differentiated = after, ++kept;
    if (pass == kSelects) {
      facts.placed = std::move(before);
      selected = after, ++kept;
    }
    before = after;
  };
  OF_ASSIGN_OR_RETURN(facts.boxed, RunPasses(graph, job.options, *job.ops, variables, observer));
  if (kept == 2) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the passes lack '", kDifferentiates, "' or '", kSelects, "'"));
}

// A node that computes another again stands for what that one was.
void ConnectRepeated(NodeId id, GraphFacts& facts) {
  const Node &node = facts.boxed.node(id), &first = facts.boxed.node(node.forward);
  facts.placed_of[id] = facts.placed_of[node.forward];
  if (first.op != node.op || first.outputs.size() != node.outputs.size()) return;  // they were fused differently
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    facts.placed_value_of[node.outputs[i]] = facts.placed_value_of[first.outputs[i]];
  }
}

void ConnectParts(GraphFacts& facts) {
  std::map<int32_t, std::vector<NodeId>> wholes;  // by serial of a part
  for (NodeId id = 0; id < facts.boxed.num_nodes(); ++id) {
    const Node& node = facts.boxed.node(id);
    if (node.parts.empty()) continue;
    wholes[node.serial].push_back(id);
    for (const int32_t part : node.parts) wholes[part].push_back(id);
  }
  for (NodeId id = 0; id < facts.placed.num_nodes(); ++id) {
    const auto found = wholes.find(facts.placed.node(id).serial);
    if (found == wholes.end()) continue;
    for (const NodeId whole : found->second) {
      facts.parts[whole].push_back(id);
      const bool again = facts.boxed.node(whole).role == Role::kRecompute;
      if (facts.boxed_of[id] < 0 && !again) facts.boxed_of[id] = whole;
    }
  }
}

// Connects the nodes and values of the placed and the boxed graph.
void Connect(GraphFacts& facts) {
  facts.placed_of = SameNodes(facts.boxed, facts.placed);
  facts.placed_value_of = SameValues(facts.boxed, facts.placed);
  facts.boxed_of = SameNodes(facts.placed, facts.boxed);
  facts.boxed_value_of = SameValues(facts.placed, facts.boxed);
  for (NodeId id = 0; id < facts.boxed.num_nodes(); ++id) {
    const Node& node = facts.boxed.node(id);
    if (node.role == Role::kRecompute && node.forward >= 0) ConnectRepeated(id, facts);
  }
  ConnectParts(facts);
}

absl::StatusOr<GraphFacts> GatherGraph(const Graph& graph, const JobFacts& job, VariableDists& variables) {
  GraphFacts facts;
  facts.ops = job.ops;
  facts.fixed = variables;
  facts.micro_batches = job.options.StepOf(graph).micro_batches;
  Graph selected;
  OF_RETURN_IF_ERROR(RunAndKeep(graph, job, variables, facts, selected));
  facts.placed_nodes = NodesByName(facts.placed);
  facts.boxed_nodes = NodesByName(facts.boxed);
  facts.placed_readers = facts.placed.Consumers();
  Connect(facts);
  facts.gradients = FindGradients(facts);
  for (const NodeId id : SameNodes(facts.placed, selected)) {
    facts.chosen.push_back(NodeView::LayoutOf(selected, selected.node(id)));
  }
  OF_RETURN_IF_ERROR(FindCandidates(*job.ops, job.options.rings, facts));
  facts.origins = FindOrigins(facts, *job.ops);

  CostModel costs(job.topology);
  for (NodeId id = 0; id < facts.boxed.num_nodes(); ++id) {
    const Node& node = facts.boxed.node(id);
    double seconds = 0;
    if (!facts.Is(node, OpKind::kBoxing)) {
      seconds = costs.Compute(facts.boxed, node, *job.ops->Find(node.op), NodeView::LayoutOf(facts.boxed, node));
    }
    facts.compute.push_back(seconds * Acts(facts, node.rate));
  }
  BoxingCollector(facts, job.topology, costs).Run();
  return facts;
}

}  // namespace

LinkBytes& LinkBytes::operator+=(const LinkBytes& o) {
  same_process += o.same_process;
  same_host += o.same_host;
  between_hosts += o.between_hosts;
  at_most = at_most || o.at_most;
  return *this;
}

LinkBytes LinkBytes::operator*(int times) const {
  return {same_process * times, same_host * times, between_hosts * times, at_most};
}

double GraphFacts::compute_seconds() const { return std::accumulate(compute.begin(), compute.end(), 0.0); }

double GraphFacts::boxing_seconds() const {
  double seconds = 0;
  for (const BoxingFacts& boxing : boxings) seconds += boxing.seconds_per_step();
  return seconds;
}

LinkBytes GraphFacts::bytes_moved() const {
  LinkBytes bytes;
  for (const BoxingFacts& boxing : boxings) bytes += boxing.bytes_per_step();
  return bytes;
}

absl::StatusOr<JobFacts> GatherFacts(const Program& program, const CompileOptions& options, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckHosts(options));
  JobFacts job{options, &ops, JobTopology(options), {}};
  VariableDists variables;
  OF_RETURN_IF_ERROR(ForEachGraph(program, options, ops, variables, [&](const Graph& graph) -> absl::Status {
    OF_ASSIGN_OR_RETURN(GraphFacts facts, GatherGraph(graph, job, variables));
    job.graphs.push_back(std::move(facts));
    return absl::OkStatus();
  }));
  return job;
}

namespace {

// For ids 0..num-1: the id below `num_others` of the same serial, or -1.
template <typename Serial, typename OtherSerial>
std::vector<int32_t> SameSerials(int num, const Serial& serial, int num_others, const OtherSerial& other_serial) {
  std::vector<int32_t> by_serial;
  for (int32_t id = 0; id < num_others; ++id) {
    const size_t of_other = other_serial(id);
    if (of_other >= by_serial.size()) by_serial.resize(of_other + 1, -1);
    by_serial[of_other] = id;
  }
  std::vector<int32_t> same(num, -1);
  for (int32_t id = 0; id < num; ++id) {
    const size_t own = serial(id);
    if (own < by_serial.size()) same[id] = by_serial[own];
  }
  return same;
}

}  // namespace

std::vector<NodeId> SameNodes(const Graph& graph, const Graph& other) {
  return SameSerials(
      graph.num_nodes(), [&](NodeId id) { return graph.node(id).serial; }, other.num_nodes(),
      [&](NodeId id) { return other.node(id).serial; });
}

std::vector<ValueId> SameValues(const Graph& graph, const Graph& other) {
  return SameSerials(
      graph.num_values(), [&](ValueId id) { return graph.value(id).serial; }, other.num_values(),
      [&](ValueId id) { return other.value(id).serial; });
}

ValueId TensorOf(const GraphFacts& facts, ValueId value) {
  const Graph& boxed = facts.boxed;
  while (facts.Is(boxed.node(boxed.value(value).producer), OpKind::kBoxing)) {
    value = boxed.node(boxed.value(value).producer).inputs[0];
  }
  return value;
}

ValueId BehindAnnotations(const GraphFacts& facts, ValueId value, std::vector<NodeId>* annotations) {
  const Graph& placed = facts.placed;
  while (facts.Is(placed.node(placed.value(value).producer), OpKind::kAnnotation)) {
    if (annotations != nullptr) annotations->push_back(placed.value(value).producer);
    value = placed.node(placed.value(value).producer).inputs[0];
  }
  return value;
}

}  // namespace oneflow
