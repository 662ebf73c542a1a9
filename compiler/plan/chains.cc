#include "compiler/plan/chains.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/boxed_graph.h"
#include "compiler/plan/buckets.h"
#include "compiler/plan/node_order.h"
#include "compiler/plan/precedence.h"
#include "compiler/plan/sections.h"
#include "compiler/plan/variables.h"

namespace oneflow {
namespace {

struct Order : Precedence {
  Buckets buckets;
  // By node: another queue waits for it, and not for what it makes, as a load of weights does for the readers of those
  // that are to make room. It ends its chain, or that queue would wait for all that follows too.
  std::vector<bool> ends;
  // By node: it waits for a copy to a tier in the step before, or, where what updates need goes in units, for the end
  // of one. What comes before it does not wait too.
  std::vector<bool> begins;
};

std::vector<bool> BeginsOfChains(const Graph& graph, const Precedence& order) {
  std::vector<bool> begins(graph.num_nodes(), false);
  bool has_units = false;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    has_units = has_units || (IsUpdate(graph.node(id)) && graph.node(id).unit >= 0 && !order.IsBoxing(id));
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const std::vector<ValueId>&now = graph.node(id).after, &last = graph.node(id).after_last;
    const auto queue_of = [&](ValueId value) { return order.queue[graph.value(value).producer]; };
    const bool may_end_units = has_units && graph.node(id).rate == Rate::kStep;
    begins[id] =
        (may_end_units &&
         std::any_of(now.begin(), now.end(), [&](ValueId value) { return queue_of(value) == order.queue[id]; })) ||
        std::any_of(last.begin(), last.end(), [&](ValueId value) { return QueueKindOf(queue_of(value)).of_tier; });
  }
  return begins;
}

std::vector<bool> EndsOfChains(const Graph& graph, const Precedence& order) {
  std::vector<bool> ends(graph.num_nodes(), false);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const ValueId value : graph.node(id).after) {
      const NodeId before = graph.value(value).producer;
      if (order.queue[before] != order.queue[id]) ends[before] = true;
    }
  }
  return ends;
}

// Whether the edge from `first` to `second` may stay inside one chain. The output of `accumulate` is complete only when
// the acts of the step are.
bool SameKey(const Graph& graph, const Order& order, NodeId first, NodeId second) {
  const Node &a = graph.node(first), &b = graph.node(second);
  return !order.IsBoxing(first) && !order.IsBoxing(second) && !order.SumsMicroBatches(first) && !order.ends[first] &&
         !order.begins[second] && order.act_rate[first] == order.act_rate[second] && a.placement == b.placement &&
         order.leads[first] == order.leads[second] && order.queue[first] == order.queue[second] &&
         order.section[first] == order.section[second] &&
         order.buckets.segment[first] == order.buckets.segment[second] && a.unit == b.unit;
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

// The levels at which gradients of a bucket wait for one another; 0 for all other nodes. `earliest`: without that.
std::vector<int> LevelsOfBuckets(const Graph& graph, const Order& order, const std::vector<int>& earliest) {
  std::vector<int> least(graph.num_nodes(), 0);
  for (const std::vector<NodeId>& bucket : order.buckets.gradients) {
    int level = 0;
    for (const NodeId id : bucket) level = std::max(level, earliest[id]);
    for (const NodeId id : bucket) least[id] = level;
  }
  return least;
}

std::vector<int> FindLevels(const Graph& graph, const Order& order) {
  const std::vector<int> alone = EarliestLevels(graph, order, std::vector<int>(graph.num_nodes(), 0));
  std::vector<int> level = EarliestLevels(graph, order, LevelsOfBuckets(graph, order, alone));
  std::vector<bool> early(graph.num_nodes(), false);  // may go down to its first reader
  for (NodeId id : order.sorted) {
    const Node& node = graph.node(id);
    early[id] = !order.IsBoxing(id) && !order.IsVariable(id) && !QueueKindOf(order.queue[id]).of_tier &&
                (node.inputs.empty() || !IsForward(node));
    for (NodeId before : order.before[id]) {
      const bool keeps_gradient = IsUpdate(node) && IsBackward(graph.node(before));
      early[id] = early[id] && (early[before] || IsForward(graph.node(before))) && !keeps_gradient;
    }
  }
  // Nodes that only hand values out come whenever the value is there.
  const auto hands_out = [&](NodeId id) {
    const QueueKind& queue = QueueKindOf(order.queue[id]);
    return !queue.launches && !queue.of_tier && order.after[id].empty();
  };
  for (auto it = order.sorted.rbegin(); it != order.sorted.rend(); ++it) {
    constexpr int kNever = 1 << 30;
    int latest = kNever;
    const bool in_backward = std::any_of(order.before[*it].begin(), order.before[*it].end(),
                                         [&](NodeId before) { return IsBackward(graph.node(before)); });
    for (NodeId after : order.after[*it]) {
      // A gradient does not wait for others of its bucket: it would keep what it is made of.
      const int begins = order.buckets.gradient[after] && in_backward ? alone[after] : level[after];
      if (!hands_out(after)) latest = std::min(latest, begins - (SameKey(graph, order, *it, after) ? 0 : 1));
    }
    if (early[*it] && latest != kNever) level[*it] = latest;
  }
  for (NodeId id : order.sorted) {
    for (NodeId before : order.before[id]) {
      if (hands_out(id)) level[id] = std::max(level[id], level[before] + 1);
    }
  }
  return level;
}

StepPart PartOf(const Graph& graph, const std::vector<NodeId>& nodes) {
  bool has[3] = {false, false, false};
  for (NodeId id : nodes) has[static_cast<int>(PartOf(graph.node(id).role))] = true;
  return has[1] ? StepPart::kBackward : has[0] ? StepPart::kForward : StepPart::kUpdate;
}

bool IsStored(const Order& order, const std::vector<NodeId>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return std::any_of(order.after[id].begin(), order.after[id].end(),
                       [&](NodeId after) { return order.kind[after] == OpKind::kStore; });
  });
}

std::string NameOf(const Graph& graph, const Chain& chain) {
  const QueueKind& queue = QueueKindOf(chain.queue);
  const std::string what = chain.kind == Chain::Kind::kBoxing ? "boxing"
                           : !queue.launches || queue.of_tier ? queue.name
                                                              : Name(chain.part);
  const size_t others = chain.nodes.size() - 1;
  return absl::StrCat(what, ".", chain.level, " ", graph.node(chain.nodes[0]).name,
                      others > 0 ? absl::StrCat(" (+", others, ")") : "");
}

// Orders the nodes of each compute chain so that values within the chain live briefly. `chain_of_node` is set.
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
  const std::vector<int> level = FindLevels(graph, order);
  // The key of a boxing also has the part of the step, because credits differ between forward and backward, and its
  // bucket, of which each step of the way is separate. Nodes before a cut do not wait with nodes behind it, and those
  // of one unit not with those of another.
  using Key = std::tuple<int, Queue, Rate, bool, int, int, int, Placement, Placement>;
  std::map<Key, std::vector<NodeId>> groups;
  for (NodeId id : order.sorted) {
    const Node& node = graph.node(id);
    if (order.IsVariable(id)) continue;
    if (order.IsBoxing(id)) {
      const Placement& from = graph.value(node.inputs[0]).dist->placement;
      groups[{level[id], kCommunicationQueue, node.rate, order.leads[id], static_cast<int>(PartOf(node.role)),
              order.buckets.bucket[id], order.buckets.depth[id], from, *node.placement}]
          .push_back(id);
    } else {
      groups[{level[id], order.queue[id], order.act_rate[id], order.leads[id], order.section[id],
              order.buckets.segment[id], node.unit, *node.placement, *node.placement}]
          .push_back(id);
    }
  }
  for (auto& [key, nodes] : groups) {
    Chain chain;
    chain.level = std::get<0>(key);
    chain.queue = std::get<1>(key);
    chain.kind = chain.queue == kCommunicationQueue ? Chain::Kind::kBoxing : Chain::Kind::kCompute;
    chain.rate = std::get<2>(key);
    chain.source = std::get<7>(key);
    chain.placement = std::get<8>(key);
    chain.nodes = std::move(nodes);
    chain.part = PartOf(graph, chain.nodes);
    chain.gradients = order.buckets.gradient[chain.nodes[0]];
    chain.is_stored = chain.part == StepPart::kUpdate && IsStored(order, chain.nodes);
    chain.section = chain.kind == Chain::Kind::kCompute ? order.section[chain.nodes[0]] : 0;
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

absl::StatusOr<ChainGraph> BuildChains(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                       const Schedule* schedule, int micro_batches, bool overlaps_gradients) {
  ChainGraph result;
  result.chain_of_node.assign(graph.num_nodes(), -1);
  OF_ASSIGN_OR_RETURN(result.mutated, FindMutations(graph, ops));
  Order order;
  OF_ASSIGN_OR_RETURN(static_cast<Precedence&>(order), FindPrecedence(graph, ops, result.mutated));
  if (schedule != nullptr) order.section = FindSections(graph, order, *schedule, micro_batches);
  order.buckets = FillBuckets(graph, topology, overlaps_gradients, order);
  order.ends = EndsOfChains(graph, order);
  order.begins = BeginsOfChains(graph, order);
  GroupNodes(graph, order, result);
  OrderNodes(graph, order, result);
  OF_RETURN_IF_ERROR(CheckOneMutator(graph, result));
  OF_RETURN_IF_ERROR(VerifyChains(graph, ops, result));
  return result;
}

absl::Status VerifyChains(const Graph& graph, const OpRegistry& ops, const ChainGraph& chains) {
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
      if (!ops.Is(graph.node(producer).op, OpKind::kVariable)) {
        OF_RETURN_IF_ERROR(check(producer, reader));
        if (!ops.Is(graph.node(producer).op, OpKind::kLoad)) continue;
        for (const auto& [first, second] : OrderOfOverwriting(graph, ops, value, consumers[value], chains.mutated)) {
          OF_RETURN_IF_ERROR(check(first, second));
        }
      } else if (!chains.Mutates(reader, value)) {
        for (NodeId mutator : consumers[value]) {
          if (chains.Mutates(mutator, value)) OF_RETURN_IF_ERROR(check(reader, mutator));
        }
      }
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (ValueId value : graph.node(id).after) OF_RETURN_IF_ERROR(check(graph.value(value).producer, id));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
