#include "compiler/plan/chains.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

#include "compiler/plan/node_order.h"
#include "compiler/plan/variables.h"

namespace oneflow {
namespace {

bool IsVariable(const Node& node) { return node.op == "variable"; }
bool IsBoxing(const Node& node) { return node.op == "boxing"; }

// `accumulate` acts with the micro-batches; only its output is slower.
Rate ActRate(const Node& node) {
  return node.op == "accumulate" && node.rate == Rate::kStep ? Rate::kMicroBatch : node.rate;
}

// Reasons of order between nodes: data, and "mutate after all reads".
struct Order {
  std::vector<std::vector<NodeId>> before;  // of each node
  std::vector<std::vector<NodeId>> after;
  std::vector<NodeId> sorted;  // all nodes; ties by id
  std::vector<int> position;   // in `sorted`
  // Acts once per step and micro-batches wait for it. It may not share a chain with what waits for micro-batches.
  std::vector<bool> leads;
};

// Whether the edge from `first` to `second` may stay inside one chain. What `accumulate` makes is complete only when
// the step's acts are.
bool SameKey(const Graph& graph, const Order& order, NodeId first, NodeId second) {
  const Node &a = graph.node(first), &b = graph.node(second);
  return !IsBoxing(a) && !IsBoxing(b) && a.op != "accumulate" && ActRate(a) == ActRate(b) &&
         a.placement == b.placement && order.leads[first] == order.leads[second];
}

absl::StatusOr<std::vector<std::vector<ValueId>>> FindMutations(const Graph& graph, const OpRegistry& ops) {
  std::vector<std::vector<ValueId>> mutated(graph.num_nodes());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (IsBoxing(node)) continue;
    OF_ASSIGN_OR_RETURN_AT(const OpDef* op, ops.Get(node.op), Where(node));
    for (int input : op->mutates) mutated[id].push_back(node.inputs[input]);
  }
  return mutated;
}

absl::StatusOr<Order> FindOrder(const Graph& graph, const ChainGraph& chains) {
  const int n = graph.num_nodes();
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  Order order{std::vector<std::vector<NodeId>>(n),
              std::vector<std::vector<NodeId>>(n),
              {},
              std::vector<int>(n, 0),
              std::vector<bool>(n, false)};
  const auto add = [&](NodeId first, NodeId second) {
    order.after[first].push_back(second);
    order.before[second].push_back(first);
  };
  for (ValueId value = 0; value < graph.num_values(); ++value) {
    const NodeId producer = graph.value(value).producer;
    if (!IsVariable(graph.node(producer))) {
      for (NodeId reader : consumers[value]) add(producer, reader);
      continue;
    }
    NodeId last_mutator = -1;
    for (NodeId mutator : consumers[value]) {
      if (!chains.Mutates(mutator, value) || mutator == last_mutator) continue;
      for (NodeId reader : consumers[value]) {
        if (!chains.Mutates(reader, value)) add(reader, mutator);
      }
      if (last_mutator >= 0) add(last_mutator, mutator);
      last_mutator = mutator;
    }
  }
  std::vector<int> missing(n);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<NodeId>> ready;
  for (NodeId id = 0; id < n; ++id) {
    missing[id] = static_cast<int>(order.before[id].size());
    if (missing[id] == 0) ready.push(id);
  }
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.position[id] = static_cast<int>(order.sorted.size());
    order.sorted.push_back(id);
    for (NodeId next : order.after[id]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  for (NodeId id = 0; id < n; ++id) {
    if (missing[id] > 0) {
      return absl::UnimplementedError(absl::StrCat(Where(graph.node(id)),
                                                   ": it waits for itself: it overwrites a variable that a later node "
                                                   "reads, or that node overwrites what it reads"));
    }
  }
  for (auto it = order.sorted.rbegin(); it != order.sorted.rend(); ++it) {
    if (ActRate(graph.node(*it)) != Rate::kStep) continue;
    for (NodeId after : order.after[*it]) {
      if (ActRate(graph.node(after)) != Rate::kStep || order.leads[after]) order.leads[*it] = true;
    }
  }
  return order;
}

// A bucket of gradients is closed when it holds so much: the time to move it is then all bandwidth, and more waiting
// for one another would gain nothing.
constexpr int64_t kBucketBytes = int64_t{16} << 20;

// Boxings of gradients: made by backward nodes, read by nothing but updates, perhaps through more boxings.
std::vector<bool> FindGradientBoxings(const Graph& graph, const Order& order) {
  std::vector<bool> found(graph.num_nodes(), false);
  for (auto it = order.sorted.rbegin(); it != order.sorted.rend(); ++it) {
    if (!IsBoxing(graph.node(*it)) || order.after[*it].empty()) continue;
    const NodeId producer = graph.value(graph.node(*it).inputs[0]).producer;
    found[*it] = IsBoxing(graph.node(producer)) || IsBackward(graph.node(producer));
    for (NodeId after : order.after[*it]) {
      found[*it] = found[*it] && (found[after] || IsUpdate(graph.node(after)));
    }
  }
  return found;
}

// The earliest levels, but none below `least`.
std::vector<int> EarliestLevels(const Graph& graph, const Order& order, const std::vector<int>& least) {
  std::vector<int> level = least;
  for (NodeId id : order.sorted) {
    for (NodeId before : order.before[id]) {
      level[id] = std::max(level[id], level[before] + (SameKey(graph, order, before, id) ? 0 : 1));
    }
  }
  return level;
}

// Levels by which gradients wait for one another, bucket by bucket in the order in which they are ready; 0 for all
// other nodes.
std::vector<int> FillBuckets(const Graph& graph, const Order& order, const std::vector<bool>& gradients) {
  const std::vector<int> earliest = EarliestLevels(graph, order, std::vector<int>(graph.num_nodes(), 0));
  std::map<std::pair<Placement, Placement>, std::vector<NodeId>> ways;
  for (NodeId id : order.sorted) {
    if (!gradients[id]) continue;
    const Value& from = graph.value(graph.node(id).inputs[0]);
    if (!IsBoxing(graph.node(from.producer))) ways[{from.dist->placement, *graph.node(id).placement}].push_back(id);
  }
  std::vector<int> least(graph.num_nodes(), 0);
  for (auto& [way, ids] : ways) {
    std::stable_sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) { return earliest[a] < earliest[b]; });
    for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
      for (int64_t bytes = 0; end < ids.size() && bytes < kBucketBytes; ++end) {
        const TensorType& type = graph.value(graph.node(ids[end]).inputs[0]).type;
        bytes += type.shape.count() * static_cast<int64_t>(SizeOf(type.dtype));
      }
      for (size_t i = begin; i < end; ++i) least[ids[i]] = earliest[ids[end - 1]];
    }
  }
  return least;
}

std::vector<int> FindLevels(const Graph& graph, const Order& order, const std::vector<bool>& gradients) {
  std::vector<int> level = EarliestLevels(graph, order, FillBuckets(graph, order, gradients));
  std::vector<bool> early(graph.num_nodes(), false);  // may go down to its first reader
  for (NodeId id : order.sorted) {
    const Node& node = graph.node(id);
    early[id] = !IsBoxing(node) && !IsVariable(node) && (node.inputs.empty() || IsBackward(node));
    for (NodeId before : order.before[id]) {
      early[id] = early[id] && (early[before] || IsForward(graph.node(before)));
    }
  }
  for (auto it = order.sorted.rbegin(); it != order.sorted.rend(); ++it) {
    if (!early[*it] || order.after[*it].empty()) continue;
    int latest = 1 << 30;
    for (NodeId after : order.after[*it]) {
      latest = std::min(latest, level[after] - (SameKey(graph, order, *it, after) ? 0 : 1));
    }
    level[*it] = latest;
  }
  return level;
}

StepPart PartOf(const Graph& graph, const std::vector<NodeId>& nodes) {
  bool has[3] = {false, false, false};
  for (NodeId id : nodes) has[static_cast<int>(PartOf(graph.node(id).role))] = true;
  return has[1] ? StepPart::kBackward : has[0] ? StepPart::kForward : StepPart::kUpdate;
}

std::string NameOf(const Graph& graph, const Chain& chain) {
  const bool boxing = chain.kind == Chain::Kind::kBoxing;
  const size_t others = chain.nodes.size() - 1;
  return absl::StrCat(boxing ? "boxing" : Name(chain.part), ".", chain.level, " ", graph.node(chain.nodes[0]).name,
                      others > 0 ? absl::StrCat(" (+", others, ")") : "");
}

// Orders the nodes of each compute chain so that what only the chain reads lives briefly. `chain_of_node` is set.
void OrderNodes(const Graph& graph, const Order& order, ChainGraph& result) {
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  std::vector<int> place(graph.num_nodes(), -1);
  std::vector<int> buffer_of(graph.num_values(), -1);
  for (size_t c = 0; c < result.chains.size(); ++c) {
    Chain& chain = result.chains[c];
    if (chain.kind == Chain::Kind::kBoxing) continue;
    const auto is_here = [&](NodeId id) { return result.chain_of_node[id] == static_cast<int>(c); };
    std::vector<OrderedNode> nodes(chain.nodes.size());
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < nodes.size(); ++i) place[chain.nodes[i]] = static_cast<int>(i);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph.node(chain.nodes[i]);
      for (const NodeId before : order.before[chain.nodes[i]]) {
        if (is_here(before)) nodes[i].after.push_back(place[before]);
      }
      for (const ValueId value : node.inputs) {
        if (is_here(graph.value(value).producer) && buffer_of[value] >= 0) nodes[i].reads.push_back(buffer_of[value]);
      }
      for (const ValueId value : node.outputs) {
        if (!std::all_of(consumers[value].begin(), consumers[value].end(), is_here)) continue;
        buffer_of[value] = static_cast<int>(bytes.size());
        nodes[i].makes.push_back(buffer_of[value]);
        bytes.push_back(ShardBytes(graph.value(value).type, *graph.value(value).dist));
      }
    }
    std::vector<NodeId> ordered;
    for (const int i : OrderToLiveBriefly(nodes, bytes)) ordered.push_back(chain.nodes[i]);
    chain.nodes = std::move(ordered);
  }
}

void GroupNodes(const Graph& graph, const Order& order, ChainGraph& result) {
  const std::vector<bool> gradients = FindGradientBoxings(graph, order);
  const std::vector<int> level = FindLevels(graph, order, gradients);
  // The part of the step is in a boxing's key, for credits differ between what forward and backward receive; and
  // gradients have keys of their own, for what backward nodes wait for must not wait for them.
  using Key = std::tuple<int, Chain::Kind, Rate, bool, int, bool, Placement, Placement>;
  std::map<Key, std::vector<NodeId>> groups;
  for (NodeId id : order.sorted) {
    const Node& node = graph.node(id);
    if (IsVariable(node)) continue;
    if (IsBoxing(node)) {
      const Placement& from = graph.value(node.inputs[0]).dist->placement;
      groups[{level[id], Chain::Kind::kBoxing, node.rate, order.leads[id], static_cast<int>(PartOf(node.role)),
              gradients[id], from, *node.placement}]
          .push_back(id);
    } else {
      groups[{level[id], Chain::Kind::kCompute, ActRate(node), order.leads[id], 0, false, *node.placement,
              *node.placement}]
          .push_back(id);
    }
  }
  for (auto& [key, nodes] : groups) {
    Chain chain;
    chain.level = std::get<0>(key);
    chain.kind = std::get<1>(key);
    chain.rate = std::get<2>(key);
    chain.source = std::get<6>(key);
    chain.placement = std::get<7>(key);
    chain.nodes = std::move(nodes);
    chain.part = PartOf(graph, chain.nodes);
    chain.name = NameOf(graph, chain);
    for (NodeId id : chain.nodes) result.chain_of_node[id] = static_cast<int>(result.chains.size());
    result.chains.push_back(std::move(chain));
  }
}

absl::Status CheckOneMutator(const Graph& graph, const ChainGraph& chains) {
  std::map<ValueId, NodeId> mutator;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (ValueId variable : chains.mutated[id]) {
      const auto [it, inserted] = mutator.emplace(variable, id);
      if (inserted || chains.chain_of_node[it->second] == chains.chain_of_node[id]) continue;
      return absl::UnimplementedError(
          absl::StrCat(Where(graph.node(id)), ": variable '", graph.node(graph.value(variable).producer).name,
                       "' is already overwritten by ", Where(graph.node(it->second)), ", which runs at another time"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool ChainGraph::Mutates(NodeId node, ValueId variable) const {
  return std::find(mutated[node].begin(), mutated[node].end(), variable) != mutated[node].end();
}

absl::StatusOr<ChainGraph> BuildChains(const Graph& graph, const OpRegistry& ops) {
  ChainGraph result;
  result.chain_of_node.assign(graph.num_nodes(), -1);
  OF_ASSIGN_OR_RETURN(result.mutated, FindMutations(graph, ops));
  OF_ASSIGN_OR_RETURN(const Order order, FindOrder(graph, result));
  GroupNodes(graph, order, result);
  OrderNodes(graph, order, result);
  OF_RETURN_IF_ERROR(CheckOneMutator(graph, result));
  OF_RETURN_IF_ERROR(VerifyChains(graph, result));
  return result;
}

absl::Status VerifyChains(const Graph& graph, const ChainGraph& chains) {
  std::vector<int> place(graph.num_nodes(), 0);  // position within the chain
  for (const Chain& chain : chains.chains) {
    for (size_t i = 0; i < chain.nodes.size(); ++i) place[chain.nodes[i]] = static_cast<int>(i);
  }
  const auto precedes = [&](NodeId a, NodeId b) {
    const int chain_a = chains.chain_of_node[a], chain_b = chains.chain_of_node[b];
    if (chain_a == chain_b) return place[a] < place[b];
    return chains.chains[chain_a].level < chains.chains[chain_b].level;
  };
  const auto check = [&](NodeId a, NodeId b) {
    if (precedes(a, b)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(Where(graph.node(b)), ": must run after ", Where(graph.node(a)),
                                            ", but the chains do not say so"));
  };
  const std::vector<std::vector<NodeId>> consumers = graph.Consumers();
  for (ValueId value = 0; value < graph.num_values(); ++value) {
    const NodeId producer = graph.value(value).producer;
    for (NodeId reader : consumers[value]) {
      if (!IsVariable(graph.node(producer))) {
        OF_RETURN_IF_ERROR(check(producer, reader));
      } else if (!chains.Mutates(reader, value)) {
        for (NodeId mutator : consumers[value]) {
          if (chains.Mutates(mutator, value)) OF_RETURN_IF_ERROR(check(reader, mutator));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
