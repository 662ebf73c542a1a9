#include "compiler/plan/variables.h"

namespace oneflow {
namespace {

bool IsOwner(const DistType& dist, int index) {
  const std::vector<int> coordinates = dist.placement.Coordinates(index);
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    if (!dist.sbp[axis].is_split() && coordinates[axis] != 0) return false;
  }
  return true;
}

PlannedVariable Plan(const Node& node, const Value& value) {
  PlannedVariable variable{
      node.name, value.type, *value.dist, node.attrs.String("init", "zeros"), node.attrs.Bool("trainable"), {}};
  for (int i = 0; i < value.dist->placement.size(); ++i) {
    VariableShard shard;
    shard.rank = value.dist->placement.ranks()[i];
    shard.region = ShardRegion(value.type.shape, *value.dist, i);
    shard.num_bytes = shard.region.count() * static_cast<int64_t>(SizeOf(value.type.dtype));
    shard.owner = IsOwner(*value.dist, i);
    variable.shards.push_back(std::move(shard));
  }
  return variable;
}

absl::Status AddVariables(const Graph& graph, VariableTable& table) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != "variable") continue;
    const Value& value = graph.value(node.outputs[0]);
    const auto [it, inserted] = table.index.emplace(node.name, static_cast<int>(table.variables.size()));
    if (inserted) {
      table.variables.push_back(Plan(node, value));
      continue;
    }
    const PlannedVariable& known = table.variables[it->second];
    if (known.type != value.type || known.dist != *value.dist) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graph '", graph.name(), "': ", Where(node), ": is ", value.type.ToString(), " ", value.dist->ToString(),
          ", but an earlier graph has it as ", known.type.ToString(), " ", known.dist.ToString()));
    }
  }
  return absl::OkStatus();
}

void ShareWhatOtherProcessesRead(const Graph& graph, const Boxings& boxings, const Topology& topology,
                                 VariableTable& table) {
  if (boxings.by_sending) return;
  for (const auto& [id, use] : boxings.by_node) {
    const Node& producer = graph.node(graph.value(graph.node(id).inputs[0]).producer);
    if (producer.op != "variable") continue;
    PlannedVariable& variable = table.variables[table.index.at(producer.name)];
    for (size_t d = 0; d < use.sources.size(); ++d) {
      const int process = topology.ProcessOf(use.step.to.placement.ranks()[d]);
      for (int source : use.sources[d]) {
        VariableShard& shard = variable.shards[source];
        if (topology.ProcessOf(shard.rank) != process) shard.zone = Zone::kShared;
      }
    }
  }
}

}  // namespace

const char* Name(Zone zone) { return zone == Zone::kPrivate ? "private" : "shared"; }

absl::StatusOr<VariableTable> LayOutVariables(const std::vector<const Graph*>& graphs,
                                              const std::vector<Boxings>& boxings, const Topology& topology) {
  VariableTable table;
  table.num_bytes.resize(topology.num_ranks());
  for (const Graph* graph : graphs) OF_RETURN_IF_ERROR(AddVariables(*graph, table));
  for (size_t i = 0; i < graphs.size(); ++i) ShareWhatOtherProcessesRead(*graphs[i], boxings[i], topology, table);
  for (PlannedVariable& variable : table.variables) {
    for (VariableShard& shard : variable.shards) {
      int64_t& used = table.num_bytes[shard.rank][static_cast<int>(shard.zone)];
      shard.offset = used;
      used += Align(shard.num_bytes);
    }
  }
  return table;
}

}  // namespace oneflow
