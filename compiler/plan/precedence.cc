#include "compiler/plan/precedence.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "compiler/boxed_graph.h"
#include "oneflow_core/tiers.h"

namespace oneflow {

Queue QueueOf(const Node& node, OpKind kind) {
  switch (kind) {
    case OpKind::kBoxing:
      return kCommunicationQueue;
    case OpKind::kData:
    case OpKind::kFetch:
    case OpKind::kCall:
      return kHostQueue;
    case OpKind::kLoad:
      return TierOf(node.attrs)->load;
    case OpKind::kStore:
      return TierOf(node.attrs)->store;
    default:
      return kComputeQueue;
  }
}

namespace {

// Edges of data and of order; behind all readers of a variable its mutations, one after the other. What was loaded from
// a tier is overwritten where it is: who reads it later in the graph finds what is new.
void AddEdges(const Graph& graph, const OpRegistry& ops, const Mutations& mutations, Precedence& result) {
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  for (ValueId value = 0; value < graph.num_values(); ++value) {
    const NodeId producer = graph.value(value).producer;
    if (!result.IsVariable(producer)) {
      for (NodeId reader : consumers[value]) result.Add(producer, reader);
      if (result.kind[producer] != OpKind::kLoad) continue;
      for (const auto& [first, second] : OrderOfOverwriting(graph, ops, value, consumers[value], mutations)) {
        result.Add(first, second);
      }
      continue;
    }
    const auto mutates = [&](NodeId node) {
      return std::find(mutations[node].begin(), mutations[node].end(), value) != mutations[node].end();
    };
    NodeId last_mutator = -1;
    for (NodeId mutator : consumers[value]) {
      if (!mutates(mutator) || mutator == last_mutator) continue;
      for (NodeId reader : consumers[value]) {
        if (!mutates(reader)) result.Add(reader, mutator);
      }
      if (last_mutator >= 0) result.Add(last_mutator, mutator);
      last_mutator = mutator;
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (ValueId value : graph.node(id).after) result.Add(graph.value(value).producer, id);
  }
}

// Nodes that make gradients for the update, and nothing else: nodes that wait for the network wait for these.
std::vector<bool> SendersOfGradients(const Graph& graph, const Precedence& order) {
  const int n = graph.num_nodes();
  const std::vector<std::vector<NodeId>> readers = graph.Consumers();
  std::vector<bool> goes_to_update(n, false);  // boxings
  const auto all_readers = [&](NodeId id, const auto& holds) {
    bool any = false;
    for (const ValueId output : graph.node(id).outputs) {
      if (!std::all_of(readers[output].begin(), readers[output].end(), holds)) return false;
      any = any || !readers[output].empty();
    }
    return any;
  };
  for (NodeId id = n - 1; id >= 0; --id) {
    goes_to_update[id] =
        order.IsBoxing(id) && all_readers(id, [&](NodeId reader) {
          return goes_to_update[reader] || IsUpdate(graph.node(reader)) || order.SumsMicroBatches(reader);
        });
  }
  std::vector<bool> sends(n, false);
  for (NodeId id = 0; id < n; ++id) {
    const Node& node = graph.node(id);
    sends[id] = IsBackward(node) && !order.IsBoxing(id) &&
                all_readers(id, [&](NodeId reader) { return goes_to_update[reader]; });
  }
  return sends;
}

// False if some nodes wait in a cycle.
bool Sort(const std::vector<bool>& first, Precedence& result) {
  const int n = static_cast<int>(result.before.size());
  std::vector<int> missing(n);
  const auto later = [&](NodeId a, NodeId b) { return first[a] != first[b] ? !first[a] : a > b; };
  std::priority_queue<NodeId, std::vector<NodeId>, decltype(later)> ready(later);
  for (NodeId id = 0; id < n; ++id) {
    missing[id] = static_cast<int>(result.before[id].size());
    if (missing[id] == 0) ready.push(id);
  }
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    result.position[id] = static_cast<int>(result.sorted.size());
    result.sorted.push_back(id);
    for (NodeId next : result.after[id]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  return static_cast<int>(result.sorted.size()) == n;
}

void FindLeaders(Precedence& result) {
  for (auto it = result.sorted.rbegin(); it != result.sorted.rend(); ++it) {
    if (result.act_rate[*it] != Rate::kStep) continue;
    for (NodeId after : result.after[*it]) {
      if (result.act_rate[after] != Rate::kStep || result.leads[after]) result.leads[*it] = true;
    }
  }
}

}  // namespace

std::vector<std::pair<NodeId, NodeId>> OrderOfOverwriting(const Graph& graph, const OpRegistry& ops, ValueId value,
                                                          const std::vector<NodeId>& users,
                                                          const Mutations& mutations) {
  enum Turn { kReads, kOverwrites, kStores };
  const auto turn_of = [&](NodeId user) {
    if (ops.Is(graph.node(user).op, OpKind::kStore)) return kStores;
    const std::vector<ValueId>& overwritten = mutations[user];
    const bool overwrites = std::find(overwritten.begin(), overwritten.end(), value) != overwritten.end();
    return overwrites ? kOverwrites : kReads;
  };
  std::vector<std::pair<NodeId, NodeId>> order;
  for (const NodeId first : users) {
    for (const NodeId second : users) {
      const Turn a = turn_of(first), b = turn_of(second);
      const bool in_turn = a < b || (a == b && first < second);
      if (in_turn && (a == kOverwrites || b == kOverwrites)) order.push_back({first, second});
    }
  }
  return order;
}

absl::StatusOr<Mutations> FindMutations(const Graph& graph, const OpRegistry& ops) {
  Mutations mutated(graph.num_nodes());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (ops.Is(node.op, OpKind::kBoxing)) continue;
    OF_ASSIGN_OR_RETURN_AT(const OpDef* op, ops.Get(node.op), Where(node));
    for (int input : op->mutates) mutated[id].push_back(node.inputs[input]);
  }
  return mutated;
}

absl::StatusOr<Precedence> FindPrecedence(const Graph& graph, const OpRegistry& ops, const Mutations& mutations) {
  const int n = graph.num_nodes();
  Precedence result;
  result.before.resize(n);
  result.after.resize(n);
  result.position.assign(n, -1);
  result.leads.assign(n, false);
  result.section.assign(n, 0);
  for (NodeId id = 0; id < n; ++id) {
    result.kind.push_back(ops.KindOf(graph.node(id).op));
    result.queue.push_back(QueueOf(graph.node(id), result.kind.back()));
    result.act_rate.push_back(result.SumsMicroBatches(id) ? Rate::kMicroBatch : graph.node(id).rate);
  }
  AddEdges(graph, ops, mutations, result);
  if (!Sort(SendersOfGradients(graph, result), result)) {
    const auto first = std::find(result.position.begin(), result.position.end(), -1);
    return absl::UnimplementedError(
        absl::StrCat(Where(graph.node(static_cast<NodeId>(first - result.position.begin()))),
                     ": it waits for itself: it overwrites a variable that a later node "
                     "reads, or the later node overwrites a variable that it reads"));
  }
  FindLeaders(result);
  return result;
}

}  // namespace oneflow
