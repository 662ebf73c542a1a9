#include "compiler/plan/buckets.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/plan/variables.h"
#include "sbp/boxing_price.h"

namespace oneflow {
namespace {

// The bytes of a bucket on a rank at which it is full; 0: nothing travels, and it never is.
int64_t FullBytes(const Topology& topology, const Placement& from, const Placement& to) {
  Link slowest;
  for (const int a : {from.ranks().front(), from.ranks().back()}) {
    for (const int b : {to.ranks().front(), to.ranks().back()}) {
      const Link link = topology.LinkBetween(a, b);
      if (link.beta_s_per_byte > slowest.beta_s_per_byte) slowest = link;
    }
  }
  if (slowest.beta_s_per_byte <= 0) return 0;
  return static_cast<int64_t>(kBucketTimes * (slowest.alpha_s + topology.device().act_s) / slowest.beta_s_per_byte);
}

class Filling {
 public:
  Filling(const Graph& graph, const Topology& topology, bool overlaps_gradients, Precedence& order)
      : graph_(graph), topology_(topology), overlaps_gradients_(overlaps_gradients), order_(order) {
    const int n = graph.num_nodes();
    result_ = {
        std::vector<int>(n, -1), std::vector<int>(n, -1), std::vector<bool>(n, false), {}, std::vector<int>(n, 0)};
  }

  Buckets Run() {
    FindGradients();
    FindFirstReaders();
    std::map<Way, std::vector<NodeId>> gradients, variables;
    for (const NodeId id : order_.sorted) {
      if (!order_.IsBoxing(id) || order_.IsBoxing(MakerOf(id))) continue;
      const Way way = {graph_.value(graph_.node(id).inputs[0]).dist->placement, *graph_.node(id).placement};
      if (result_.gradient[id]) gradients[way].push_back(id);
      if (order_.IsVariable(MakerOf(id)) && first_reader_[id] >= 0) variables[way].push_back(id);
    }
    for (auto& [way, boxings] : gradients) FillWithGradients(way, boxings);
    for (auto& [way, boxings] : variables) FillWithVariables(way, boxings);
    FollowWays();
    Cut();
    return std::move(result_);
  }

 private:
  using Way = std::pair<Placement, Placement>;
  // The kinds of work that a chain distinguishes.
  using Work = std::tuple<Placement, Rate, bool, int>;
  Work WorkOf(NodeId id) const {
    return {*graph_.node(id).placement, order_.act_rate[id], order_.leads[id], order_.section[id]};
  }
  NodeId MakerOf(NodeId boxing) const { return graph_.value(graph_.node(boxing).inputs[0]).producer; }
  bool IsCut(NodeId id) const { return !order_.IsBoxing(id) && !order_.IsVariable(id) && !IsUpdate(graph_.node(id)); }

  void FindGradients() {
    for (auto it = order_.sorted.rbegin(); it != order_.sorted.rend(); ++it) {
      if (!order_.IsBoxing(*it) || order_.after[*it].empty()) continue;
      const NodeId maker = MakerOf(*it);
      result_.gradient[*it] = (order_.IsBoxing(maker) || IsBackward(graph_.node(maker))) &&
                              std::all_of(order_.after[*it].begin(), order_.after[*it].end(), [&](NodeId after) {
                                return result_.gradient[after] || IsUpdate(graph_.node(after));
                              });
    }
  }

  // By boxing: the first node that computes with its result.
  void FindFirstReaders() {
    first_reader_.assign(graph_.num_nodes(), -1);
    for (auto it = order_.sorted.rbegin(); it != order_.sorted.rend(); ++it) {
      if (!order_.IsBoxing(*it)) continue;
      for (const NodeId after : order_.after[*it]) {
        const NodeId reader = order_.IsBoxing(after) ? first_reader_[after] : IsCut(after) ? after : -1;
        NodeId& first = first_reader_[*it];
        if (reader >= 0 && (first < 0 || order_.position[reader] < order_.position[first])) first = reader;
      }
    }
  }

  // Sorts boxings by the position of `at`, and calls begin(previous, next) where a new bucket begins. 0 bytes: no new
  // bucket begins.
  template <typename At, typename Begin>
  void Fill(int64_t full, std::vector<NodeId>& boxings, const At& at, const Begin& begin) {
    std::stable_sort(boxings.begin(), boxings.end(),
                     [&](NodeId a, NodeId b) { return order_.position[at(a)] < order_.position[at(b)]; });
    int64_t bytes = 0;
    ++num_buckets_;
    for (size_t i = 0; i < boxings.size(); ++i) {
      if (full > 0 && bytes >= full) {
        begin(boxings[i - 1], boxings[i]);
        ++num_buckets_;
        bytes = 0;
      }
      result_.bucket[boxings[i]] = num_buckets_ - 1;
      result_.depth[boxings[i]] = 0;
      const Value& gets = graph_.value(graph_.node(boxings[i]).outputs[0]);
      bytes += ShardBytes(gets.type, *gets.dist);
    }
  }

  void FillWithGradients(const Way& way, std::vector<NodeId>& boxings) {
    Fill(
        overlaps_gradients_ ? FullBytes(topology_, way.first, way.second) : 0, boxings,
        [&](NodeId id) { return MakerOf(id); },
        [&](NodeId last, NodeId) { cuts_[WorkOf(MakerOf(last))].insert(order_.position[MakerOf(last)] + 1); });
    for (const NodeId id : boxings) {
      if (result_.gradients.empty() || result_.bucket[result_.gradients.back()[0]] != result_.bucket[id])
        result_.gradients.emplace_back();
      result_.gradients.back().push_back(id);
    }
  }

  void FillWithVariables(const Way& way, std::vector<NodeId>& boxings) {
    Fill(
        FullBytes(topology_, way.first, way.second), boxings, [&](NodeId id) { return first_reader_[id]; },
        [&](NodeId, NodeId next) { cuts_[WorkOf(first_reader_[next])].insert(order_.position[first_reader_[next]]); });
  }

  void FollowWays() {
    for (const NodeId id : order_.sorted) {
      if (!order_.IsBoxing(id) || result_.bucket[id] >= 0) continue;
      result_.bucket[id] = result_.bucket[MakerOf(id)];
      result_.depth[id] = result_.bucket[id] < 0 ? -1 : result_.depth[MakerOf(id)] + 1;
    }
  }

  // The last node before each cut stands for all nodes before it.
  void Cut() {
    struct State {
      std::set<int>::const_iterator next;
      int segment = 0;
      NodeId last = -1, anchor = -1;
    };
    std::map<Work, State> states;
    for (const NodeId id : order_.sorted) {
      if (!IsCut(id)) continue;
      const auto cuts = cuts_.find(WorkOf(id));
      if (cuts == cuts_.end()) continue;
      State& state = states.try_emplace(cuts->first, State{cuts->second.begin()}).first->second;
      for (; state.next != cuts->second.end() && *state.next <= order_.position[id]; ++state.next) {
        if (state.last < 0) continue;  // nothing comes before it
        state.segment += state.anchor != state.last;
        state.anchor = state.last;
      }
      result_.segment[id] = state.segment;
      if (state.anchor >= 0) order_.Add(state.anchor, id);
      state.last = id;
    }
  }

  const Graph& graph_;
  const Topology& topology_;
  const bool overlaps_gradients_;
  Precedence& order_;
  std::vector<NodeId> first_reader_;
  std::map<Work, std::set<int>> cuts_;  // positions of what is first behind them
  int num_buckets_ = 0;
  Buckets result_;
};

}  // namespace

Buckets FillBuckets(const Graph& graph, const Topology& topology, bool overlaps_gradients, Precedence& order) {
  return Filling(graph, topology, overlaps_gradients, order).Run();
}

}  // namespace oneflow
