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
    std::map<std::pair<int, Way>, std::vector<NodeId>> gradients;
    std::map<Way, std::vector<NodeId>> variables;
    std::map<std::pair<int, Way>, std::vector<NodeId>> units;
    for (const NodeId id : order_.sorted) {
      if (!order_.IsBoxing(id)) continue;
      const Way way = {graph_.value(graph_.node(id).inputs[0]).dist->placement, *graph_.node(id).placement};
      const int unit = graph_.node(id).unit;
      if (unit >= 0 && graph_.node(MakerOf(id)).unit != unit) units[{unit, way}].push_back(id);
      if (unit >= 0 || order_.IsBoxing(MakerOf(id))) continue;
      // A schedule may compute other things between those of two chunks.
      const int section = order_.act_rate[id] == Rate::kMicroBatch ? order_.section[MakerOf(id)] : 0;
      if (result_.gradient[id]) gradients[{section, way}].push_back(id);
      if (order_.IsVariable(MakerOf(id)) && first_reader_[id] >= 0) variables[way].push_back(id);
    }
    for (auto& [way, boxings] : gradients) FillWithGradients(way.second, boxings);
    for (auto& [way, boxings] : variables) FillWithVariables(way, boxings);
    for (const auto& [unit, boxings] : units) FillWithUnit(boxings);
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
    const std::vector<std::vector<NodeId>> readers = graph_.Consumers();
    for (auto it = order_.sorted.rbegin(); it != order_.sorted.rend(); ++it) {
      if (!order_.IsBoxing(*it)) continue;
      const std::vector<NodeId>& of_it = readers[graph_.node(*it).outputs[0]];
      const NodeId maker = MakerOf(*it);
      result_.gradient[*it] =
          !of_it.empty() && (order_.IsBoxing(maker) || IsBackward(graph_.node(maker))) &&
          std::all_of(of_it.begin(), of_it.end(), [&](NodeId reader) {
            return result_.gradient[reader] || IsUpdate(graph_.node(reader)) || order_.SumsMicroBatches(reader);
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
        overlaps_gradients_ ? BucketBytes(way.first, way.second, topology_) : 0, boxings,
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
        BucketBytes(way.first, way.second, topology_), boxings, [&](NodeId id) { return first_reader_[id]; },
        [&](NodeId, NodeId next) { cuts_[WorkOf(first_reader_[next])].insert(order_.position[first_reader_[next]]); });
  }

  // A pass has filled it; here it only travels by itself.
  void FillWithUnit(const std::vector<NodeId>& boxings) {
    std::map<Work, int> cuts;
    for (const NodeId id : boxings) {
      result_.bucket[id] = num_buckets_;
      result_.depth[id] = 0;
      const bool gradient = result_.gradient[id];
      const NodeId at = gradient ? MakerOf(id) : first_reader_[id];
      if (at < 0) continue;
      const int position = order_.position[at] + gradient;
      const auto [cut, is_new] = cuts.try_emplace(WorkOf(at), position);
      if (!is_new) cut->second = gradient ? std::max(cut->second, position) : std::min(cut->second, position);
    }
    for (const auto& [work, position] : cuts) cuts_[work].insert(position);
    if (result_.gradient[boxings[0]]) result_.gradients.push_back(boxings);
    ++num_buckets_;
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
