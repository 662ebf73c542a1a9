#include "compiler/select/memory_demand.h"

#include "oneflow_core/tiers.h"

namespace oneflow {
namespace {

void AddMade(const Graph& graph, const SearchProblem& problem, NodeId node, MemoryKind kind, MemoryDemand& demand) {
  MemoryDemand::Made made{node, kind, {}};
  for (const SearchProblem::Option& option : problem.nodes[node].options) {
    made.bytes.push_back(demand.size(graph.node(node).outputs[0], option.outputs[0]));
  }
  demand.made.push_back(std::move(made));
}

void AddAll(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem, OpKind op, MemoryKind kind,
            MemoryDemand& demand) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (ops.Is(node.op, op) && TierOf(node.attrs) == nullptr) AddMade(graph, problem, id, kind, demand);
  }
}

}  // namespace

MemoryDemand VariableDemand(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem,
                            MemoryDemand demand) {
  AddAll(graph, ops, problem, OpKind::kVariable, MemoryKind::kVariable, demand);
  return demand;
}

MemoryDemand WholeDemand(const Graph& graph, const OpRegistry& ops, const SearchProblem& problem,
                         const std::vector<int>& recomputed, MemoryDemand demand) {
  const auto piece = [&](NodeId node) { return node < 0 || recomputed.empty() ? -1 : recomputed[node]; };
  AddAll(graph, ops, problem, OpKind::kVariable, MemoryKind::kVariable, demand);
  AddAll(graph, ops, problem, OpKind::kAccumulate, MemoryKind::kSum, demand);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const Node& producer = graph.node(graph.value(id).producer);
    MemoryDemand::Read read{id, MemoryKind::kActivation, {}};
    if (ops.Is(producer.op, OpKind::kVariable)) {
      read = {id, MemoryKind::kCopy, problem.values[id].readers, /*only_boxed=*/true};
    } else if (IsForward(producer)) {
      for (const std::pair<int, int>& reader : problem.values[id].readers) {
        const Node& node = graph.node(reader.first);
        const int served = piece(node.forward);
        const bool reads_again = served >= 0 && served == piece(graph.value(id).producer);
        if (IsBackward(node) && !reads_again) read.readers.push_back(reader);
      }
    }
    if (!read.readers.empty()) demand.read.push_back(std::move(read));
  }
  return demand;
}

}  // namespace oneflow
