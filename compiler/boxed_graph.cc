#include "compiler/boxed_graph.h"

#include <set>
#include <tuple>
#include <utility>

#include "compiler/look_alikes.h"
#include "compiler/node_view.h"
#include "oneflow_core/ragged.h"
#include "sbp/boxing.h"
#include "sbp/device_kinds.h"
#include "sbp/place_pairs.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

absl::Status VerifyDists(const Graph& graph, const Node& node) {
  if (!node.placement.has_value()) return absl::InternalError("has no placement");
  for (ValueId output : node.outputs) {
    const Value& value = graph.value(output);
    if (!value.dist.has_value()) return absl::InternalError(absl::StrCat("output ", value.output, " has no dist"));
    if (!HasRanksOf(value.dist->placement, *node.placement)) {
      return absl::InternalError(absl::StrCat("output ", value.output, " lies on ", value.dist->placement.ToString(),
                                              ", the node on ", node.placement->ToString()));
    }
    OF_RETURN_IF_ERROR(CheckDistType(value.type.shape, *value.dist));
  }
  return absl::OkStatus();
}

// The nodes and boxings that were verified already; those that look alike are verified once.
struct Known {
  Known(const Graph& graph, const Topology& topology) : pairs(topology), alike(graph) {}

  PlacePairs pairs;
  std::set<std::tuple<int, DType, std::vector<int64_t>, NdSbp, NdSbp>> boxings;
  LookAlikes alike;
  std::set<std::tuple<std::vector<int>, std::vector<NdSbp>, std::vector<NdSbp>>> layouts;
};

absl::Status VerifyBoxing(const Graph& graph, const Node& node, const Topology& topology, Known& known) {
  const Value& from = graph.value(node.inputs[0]);
  const Value& to = graph.value(node.outputs[0]);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const DistType &counts = *graph.value(node.inputs[i]).dist, &rows = i == 1 ? *from.dist : *to.dist;
    if (counts == CountsDist(from.type, rows)) continue;
    return absl::InternalError(absl::StrCat("counts lie as ", counts.ToString(), ", the rows as ", rows.ToString()));
  }
  const int pair = known.pairs.Pair(known.pairs.Number(from.dist->placement), known.pairs.Number(to.dist->placement));
  const auto [it, is_new] =
      known.boxings.insert({pair, from.type.dtype, from.type.shape.dims(), from.dist->sbp, to.dist->sbp});
  if (!is_new) return absl::OkStatus();
  const absl::Status status = CheckOneBoxingStep(from.type, *from.dist, *to.dist, topology);
  if (status.ok()) return status;
  return absl::InternalError(
      absl::StrCat(from.dist->ToString(), " to ", to.dist->ToString(), " is not one step: ", status.message()));
}

// Between tiers a value stays on its ranks, and lies there as it did.
absl::Status VerifyTierCopy(const Graph& graph, const Node& node) {
  const Value& from = graph.value(node.inputs.back());
  const Value& to = graph.value(node.inputs.size() > 1 ? node.inputs[0] : node.outputs[0]);
  if (*from.dist == *to.dist && from.layout == to.layout && from.dist->placement == *node.placement) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("on ", node.placement->ToString(), " it copies ", from.dist->ToString(),
                                          " to ", to.dist->ToString()));
}

absl::Status VerifySignature(const Graph& graph, NodeId id, const OpRegistry& ops, Known& known) {
  const Node& node = graph.node(id);
  for (ValueId input : node.inputs) {
    const DistType& dist = *graph.value(input).dist;
    if (!HasRanksOf(dist.placement, *node.placement)) {
      return absl::InternalError(absl::StrCat("reads '", graph.node(graph.value(input).producer).name, "' on ",
                                              dist.placement.ToString(), " but lies on ", node.placement->ToString()));
    }
  }
  const NodeView view(graph, id, ops);
  const Layout layout = view.layout();
  std::vector<int> key = known.alike.Key(node);
  key.push_back(known.alike.Number(AxesText(node.placement->axes())));
  if (!known.layouts.insert({std::move(key), layout.inputs, layout.outputs}).second) return absl::OkStatus();
  const absl::Status status = view.CheckLayout(layout, *node.placement);
  if (status.ok()) return status;
  return absl::InternalError(
      absl::StrCat(layout.ToString(), " on ", node.placement->ToString(), ": ", status.message()));
}

absl::Status VerifyKind(const Graph& graph, NodeId id, OpKind kind, const Topology& topology, const OpRegistry& ops,
                        Known& known) {
  switch (kind) {
    case OpKind::kAnnotation:
      return absl::InternalError("was not dissolved");
    case OpKind::kBoxing:
      return VerifyBoxing(graph, graph.node(id), topology, known);
    case OpKind::kLoad:
    case OpKind::kStore:
      return VerifyTierCopy(graph, graph.node(id));
    default:
      return VerifySignature(graph, id, ops, known);
  }
}

absl::Status VerifyMemoryLayouts(const Graph& graph, const Node& node, const OpDef& op) {
  std::vector<MemoryLayout> layouts;
  for (const ValueId input : node.inputs) layouts.push_back(graph.value(input).layout);
  for (const ValueId output : node.outputs) {
    const Value& value = graph.value(output);
    layouts.push_back(value.layout);
    if (value.layout == MemoryLayout::kRowMajor || ShardsFitBlocks(value.type, *value.dist)) continue;
    return absl::InternalError(absl::StrCat("output ", value.output, " lies in blocks, but not every shard of ",
                                            value.type.ToString(), " ", value.dist->ToString(), " can"));
  }
  const NodeView view(graph, node, op);
  const absl::Status status =
      CheckLayouts(BlockGroups(op, view.input_types(), view.output_types(), node.attrs), layouts);
  return status.ok() ? status : absl::InternalError(status.message());
}

absl::Status VerifyRate(const Graph& graph, const Node& node, const OpRegistry& ops, bool one_rate) {
  const OpKind kind = ops.KindOf(node.op);
  if (one_rate && (node.rate != Rate::kStep || kind == OpKind::kAccumulate)) {
    return absl::InternalError("a step of one micro-batch has no other rate and nothing to accumulate");
  }
  bool reads_micro_batches = false;
  for (ValueId input : node.inputs) reads_micro_batches |= ValueRate(graph, input, ops) == Rate::kMicroBatch;
  if (reads_micro_batches && node.rate == Rate::kStep) {
    return absl::InternalError("acts once per step but reads a value of every micro-batch");
  }
  if (kind == OpKind::kAccumulate && !reads_micro_batches)
    return absl::InternalError("accumulates a value of the whole step");
  return absl::OkStatus();
}

absl::Status VerifyMutations(const Graph& graph, const Node& node, const OpRegistry& ops) {
  OF_ASSIGN_OR_RETURN(const OpDef* const op, ops.Get(node.op));
  for (int index : op->mutates) {
    const Node& producer = graph.node(graph.value(node.inputs[index]).producer);
    if (!ops.Is(producer.op, OpKind::kVariable) && !ops.Is(producer.op, OpKind::kLoad)) {
      return absl::InternalError(absl::StrCat("mutates input ", index, ", which is no variable but ", Where(producer)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMeshes(const CompileOptions& options) {
  const int ranks = options.NumRanks();
  if (options.mesh.size() > ranks) {
    return absl::InvalidArgumentError(absl::StrCat("the mesh has ", options.mesh.size(), " devices, the job ", ranks));
  }
  for (const auto& [graph, mesh] : options.meshes) {
    if (mesh.last_rank() < ranks) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the mesh of '", graph, "' takes rank ", mesh.last_rank(), ", but the job has ", ranks, " ranks"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Topology> MakeTopology(const CompileOptions& options) {
  OF_RETURN_IF_ERROR(CheckMeshes(options));
  std::vector<HostGroup> hosts = options.hosts;
  if (hosts.empty()) {
    hosts.push_back({.devices = options.NumRanks(), .device = UsualDevice(options.device)});
    hosts[0].device.memory_bytes = 0;  // unknown
  }
  return Topology::Create(options.NumRanks(), options.ranks_per_process, std::move(hosts));
}

}  // namespace

absl::Status VerifyBoxedGraph(const Graph& graph, const OpRegistry& ops, const CompileOptions& options) {
  const Topology topology = JobTopology(options);
  Known known(graph, topology);
  const bool one_rate = !graph.is_trained() || options.micro_batches == 1;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const auto where = [&] { return absl::StrCat("boxed graph: ", Where(node)); };
    OF_RETURN_IF_ERROR_AT(VerifyDists(graph, node), where());
    OF_ASSIGN_OR_RETURN_AT(const OpDef* const op, ops.Get(node.op), where());
    OF_RETURN_IF_ERROR_AT(VerifyRate(graph, node, ops, one_rate), where());
    OF_RETURN_IF_ERROR_AT(VerifyMutations(graph, node, ops), where());
    OF_RETURN_IF_ERROR_AT(VerifyMemoryLayouts(graph, node, *op), where());
    OF_RETURN_IF_ERROR_AT(VerifyKind(graph, id, op->kind, topology, ops, known), where());
  }
  return absl::OkStatus();
}

bool SumsMicroBatches(const Node& node, const OpRegistry& ops) { return ops.Is(node.op, OpKind::kAccumulate); }

Rate ValueRate(const Graph& graph, ValueId value, const OpRegistry& ops) {
  const Node& producer = graph.node(graph.value(value).producer);
  return SumsMicroBatches(producer, ops) ? Rate::kStep : producer.rate;
}

ValueId AddBoxing(Graph& graph, Node node, const Node& like, ValueId value, const DistType& to, const OpRegistry& ops) {
  node.source = like.source;
  CopyProvenance(like, node);
  node.rate = ValueRate(graph, value, ops);
  node.placement = to.placement;
  const TensorType type = graph.value(value).type;
  const ValueId result = graph.node(graph.AddNode(std::move(node), {type})).outputs[0];
  graph.value(result).dist = to;
  return result;
}

absl::Status CheckHosts(const CompileOptions& options) { return MakeTopology(options).status(); }

Topology JobTopology(const CompileOptions& options) { return *MakeTopology(options); }

}  // namespace oneflow
