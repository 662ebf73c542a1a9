#include "compiler/plan/variables.h"

#include "oneflow_core/tiers.h"

namespace oneflow {
namespace {

PlannedVariable Plan(const Node& node, const Value& value) {
  const TierKind* const tier = TierOf(node.attrs);
  return {.name = node.name,
          .type = value.type,
          .dist = *value.dist,
          .init = node.attrs.String("init", "zeros"),
          .role = RoleOfVariable(node.attrs),
          .use = node.role == Role::kUpdate ? MemoryUse::kOptimizer : MemoryUse::kWeights,
          .zone = tier == nullptr ? kPrivateZone : tier->zone,
          .num_bytes = ShardBytes(value.type, *value.dist),
          .offsets = {}};
}

absl::Status AddVariables(const Graph& graph, const OpRegistry& ops, VariableTable& table) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!ops.Is(node.op, OpKind::kVariable)) continue;
    const Value& value = graph.value(node.outputs[0]);
    const auto [it, inserted] = table.index.emplace(node.name, static_cast<int>(table.variables.size()));
    if (inserted) {
      table.variables.push_back(Plan(node, value));
      continue;
    }
    const PlannedVariable& known = table.variables[it->second];
    if (known.zone != Plan(node, value).zone) {
      return absl::InternalError(
          absl::StrCat("graph '", graph.name(), "': ", Where(node), ": lies in the ", TierName(TierOf(node.attrs)),
                       "'s memory, but in an earlier graph in the ", ZoneName(known.zone), " zone"));
    }
    if (known.type != value.type || known.dist != *value.dist) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graph '", graph.name(), "': ", Where(node), ": is ", value.type.ToString(), " ", value.dist->ToString(),
          ", but an earlier graph has it as ", known.type.ToString(), " ", known.dist.ToString()));
    }
  }
  return absl::OkStatus();
}

void ShareWhatOtherProcessesRead(const Graph& graph, const OpRegistry& ops, const Boxings& boxings,
                                 VariableTable& table) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!ops.Is(node.op, OpKind::kBoxing) || !boxings.SharesAmongProcesses(graph, node)) continue;
    for (const ValueId value : node.inputs) {  // rows, and their counts
      const Node& producer = graph.node(graph.value(value).producer);
      if (!ops.Is(producer.op, OpKind::kVariable)) continue;
      table.variables[table.index.at(producer.name)].zone = kSharedZone;
    }
  }
}

}  // namespace

const char* Name(MemoryUse use) {
  static constexpr const char* kNames[kNumMemoryUses] = {"weights",     "optimizer", "gradients",
                                                         "activations", "transfers", "scratch"};
  return kNames[static_cast<int>(use)];
}

absl::StatusOr<VariableTable> LayOutVariables(const std::vector<const Graph*>& graphs, const OpRegistry& ops,
                                              const RankClasses& classes, const Boxings& boxings) {
  VariableTable table;
  table.num_bytes.resize(classes.size());
  for (const Graph* graph : graphs) OF_RETURN_IF_ERROR(AddVariables(*graph, ops, table));
  for (const Graph* graph : graphs) ShareWhatOtherProcessesRead(*graph, ops, boxings, table);
  for (PlannedVariable& variable : table.variables) {
    variable.offsets.assign(classes.size(), -1);
    for (const int c : classes.In(variable.dist.placement)) {
      int64_t& used = table.num_bytes[c][static_cast<int>(variable.zone)];
      variable.offsets[c] = used;
      used += RoomIn(variable.zone, variable.num_bytes);
    }
  }
  return table;
}

}  // namespace oneflow
