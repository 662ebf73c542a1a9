#include "compiler/lower/memory_cap.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/boxed_graph.h"
#include "compiler/node_view.h"
#include "compiler/passes/passes.h"
#include "compiler/recompute_choice.h"
#include "compiler/select/cost_model.h"
#include "oneflow_core/zones.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

constexpr int kMostPlans = 10, kMostTurns = 40;  // that are made; of budgets, many of which give the same plan
constexpr int kMostRefined = 30;                 // plans beside the best by budgets
constexpr size_t kMostForPairs = 12;             // segments, of which two are tried instead of one

// The segments of one stage, in the order of forward.
struct StageChain {
  std::vector<int> segments;
  std::vector<RecomputableSegment> costs;
  int64_t micro_batches = 1;  // whose activations it holds at once
};
using StageChains = std::map<Placement, StageChain>;
using BytesByStage = std::map<Placement, int64_t>;

// What a rank of the class takes of its device.
int64_t BytesOfDevice(const pb::RankClass& ranks) { return BytesOfZones(ranks) + ranks.library_bytes(); }

class CapSearch {
 public:
  CapSearch(const BoxGraphs& box, const CompileOptions& options, const OpRegistry& ops)
      : box_(box), ops_(ops), options_(options), cap_(options.recompute.memory_bytes) {
    options_.recompute.memory_bytes = 0;
    if (options_.recompute.what.empty()) options_.recompute.what = "layers";
    for (HostGroup& host : options_.hosts) host.device.memory_bytes = 0;  // plans that are tried may be larger
  }

  absl::StatusOr<std::set<int>> Run() {
    OF_ASSIGN_OR_RETURN(const Tried none, Try(std::set<int>()));
    const Graph* const kept = TrainedOf(none.graphs);
    if (kept == nullptr || Fits(none)) return std::set<int>();
    OF_ASSIGN_OR_RETURN(const Tried all, Try(std::nullopt));
    FindChains(*kept, *TrainedOf(all.graphs));
    std::set<int> best;
    for (const auto& [placement, chain] : chains_) best.insert(chain.segments.begin(), chain.segments.end());
    if (!Fits(all)) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "recompute.memory is %d bytes, but with all %d '%s' computed again a device takes %d (%d without); it needs "
          "more devices, smaller micro-batches, or state in parts",
          cap_, best.size(), options_.recompute.what, Most(all.bytes), Most(none.bytes)));
    }
    if (chains_.empty()) return best;
    double least = SecondsOf(best);
    // Budgets that were too much, and that were not.
    BytesByStage low, high, budget;
    for (const auto& [placement, chain] : chains_) {
      high[placement] = PeakBytesOf(chain.costs, std::vector<bool>(chain.costs.size(), false));
      low[placement] = PeakBytesOf(chain.costs, std::vector<bool>(chain.costs.size(), true));
      const int64_t first = high[placement] - (BytesOf(none, placement) - cap_) / chain.micro_batches;
      budget[placement] = std::clamp(first, low[placement], high[placement]);
    }
    std::map<std::set<int>, BytesByStage> known;  // of plans that were made, how much they are over the cap
    for (int turn = 0; turn < kMostTurns && static_cast<int>(known.size()) < kMostPlans; ++turn) {
      const std::set<int> chosen = Choose(budget);
      const auto [over, is_new] = known.try_emplace(chosen);
      if (is_new) {
        OF_ASSIGN_OR_RETURN(const Tried tried, Try(chosen));
        for (const auto& [placement, chain] : chains_) over->second[placement] = BytesOf(tried, placement) - cap_;
        if (Fits(tried) && SecondsOf(chosen) < least) {
          best = chosen;
          least = SecondsOf(chosen);
        }
      }
      for (const auto& [placement, chain] : chains_) {
        const int64_t bytes = over->second.at(placement);
        int64_t &of_stage = budget[placement], &from = low[placement], &to = high[placement];
        (bytes > 0 ? to : from) = of_stage;
        of_stage -= bytes / chain.micro_batches;
        if (!is_new || of_stage <= from || of_stage >= to) of_stage = (from + to) / 2;
      }
    }
    return Refine(std::move(best));
  }

  const std::string& what() const { return options_.recompute.what; }

 private:
  // Bytes of segments add up in plans only about. So one more is kept, or another one, as long as that fits.
  absl::StatusOr<std::set<int>> Refine(std::set<int> best) {
    int plans = 0;
    for (bool is_better = true; is_better && plans < kMostRefined;) {
      is_better = false;
      for (const std::set<int>& neighbour : ShorterNeighbours(best)) {
        if (++plans > kMostRefined) break;
        OF_ASSIGN_OR_RETURN(const Tried tried, Try(neighbour));
        if (!Fits(tried)) continue;
        best = neighbour;
        is_better = true;
        break;
      }
    }
    return best;
  }

  // With one segment fewer, or one or two others instead, and less time; those first that have the fewest bytes.
  std::vector<std::set<int>> ShorterNeighbours(const std::set<int>& again) const {
    std::vector<int> others;
    for (const auto& [placement, chain] : chains_) {
      for (const int segment : chain.segments) {
        if (again.count(segment) == 0) others.push_back(segment);
      }
    }
    std::set<std::pair<int64_t, std::set<int>>> found;
    const double seconds = SecondsOf(again);
    const auto add = [&](const std::set<int>& neighbour) {
      if (SecondsOf(neighbour) < seconds) found.emplace(PeakOf(neighbour), neighbour);
    };
    for (const int segment : again) {
      std::set<int> with = again;
      with.erase(segment);
      add(with);
      for (const int first : others) {
        with.insert(first);
        add(with);
        for (const int second : others) {
          if (second <= first || others.size() > kMostForPairs) continue;
          with.insert(second);
          add(with);
          with.erase(second);
        }
        with.erase(first);
      }
    }
    std::vector<std::set<int>> neighbours;
    for (const auto& [bytes, neighbour] : found) neighbours.push_back(neighbour);
    return neighbours;
  }

  int64_t PeakOf(const std::set<int>& again) const {
    int64_t most = 0;
    for (const auto& [placement, chain] : chains_) {
      most = std::max(most, chain.micro_batches * PeakBytesOf(chain.costs, OfStage(chain, again)));
    }
    return most;
  }
  static std::vector<bool> OfStage(const StageChain& chain, const std::set<int>& again) {
    std::vector<bool> of_stage;
    for (const int segment : chain.segments) of_stage.push_back(again.count(segment) > 0);
    return of_stage;
  }

  // What is computed again where each stage has so many bytes for its segments.
  std::set<int> Choose(const BytesByStage& budget) const {
    std::set<int> chosen;
    for (const auto& [placement, chain] : chains_) {
      const std::optional<std::vector<bool>> again = ChooseRecomputed(chain.costs, budget.at(placement));
      for (size_t i = 0; i < chain.segments.size(); ++i) {
        if (!again.has_value() || (*again)[i]) chosen.insert(chain.segments[i]);
      }
    }
    return chosen;
  }

  struct Tried {
    std::vector<BoxedGraph> graphs;
    pb::PlanSet plan;
    std::vector<int64_t> bytes;  // by class
  };

  absl::StatusOr<Tried> Try(std::optional<std::set<int>> segments) {
    options_.recompute.segments = std::move(segments);
    Tried tried;
    OF_ASSIGN_OR_RETURN(tried.graphs, box_(options_, nullptr));
    OF_ASSIGN_OR_RETURN(tried.plan, CompileBoxed(tried.graphs, options_, ops_));
    for (const pb::RankClass& ranks : tried.plan.classes()) tried.bytes.push_back(BytesOfDevice(ranks));
    return tried;
  }

  static const Graph* TrainedOf(const std::vector<BoxedGraph>& graphs) {
    for (const BoxedGraph& boxed : graphs) {
      if (boxed.graph.is_trained()) return &boxed.graph;
    }
    return nullptr;
  }

  static int64_t Most(const std::vector<int64_t>& bytes) {
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  }
  bool Fits(const Tried& tried) const { return Most(tried.bytes) <= cap_; }
  static int64_t BytesOf(const Tried& tried, const Placement& placement) {
    int64_t most = 0;
    for (int c = 0; c < tried.plan.classes_size(); ++c) {
      const auto& ranks = tried.plan.classes(c).ranks();
      const bool is_there =
          std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return placement.IndexOf(rank) >= 0; });
      if (is_there) most = std::max(most, tried.bytes[c]);
    }
    return most;
  }

  double SecondsOf(const std::set<int>& again) const {
    double slowest = 0;  // of the stages, which wait for one another
    for (const auto& [placement, chain] : chains_) {
      slowest = std::max(slowest, SecondsOfAgain(chain.costs, OfStage(chain, again)));
    }
    return slowest;
  }

  int SegmentOf(const Graph& graph, const Node& node) const {
    return graph.SegmentOfKind(node.segment, options_.recompute.what);
  }

  // By segment: what a rank holds of it from forward to backward, of one micro-batch.
  std::map<int, int64_t> HeldBytes(const Graph& graph) const {
    const std::vector<bool> varies = DependsOnMicroBatch(graph, ops_);
    const std::vector<std::vector<NodeId>> readers = graph.Consumers();
    std::map<int, int64_t> held;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      const int segment = SegmentOf(graph, node);
      if (!IsForward(node) || !varies[id] || segment < 0) continue;
      for (const ValueId output : node.outputs) {
        const bool is_held = std::any_of(readers[output].begin(), readers[output].end(),
                                         [&](NodeId reader) { return IsBackward(graph.node(reader)); });
        const Value& value = graph.value(output);
        if (is_held) held[segment] += ShardBytes(value.type, *value.dist);
      }
    }
    return held;
  }

  // By segment: gradients that are there at once during its backward, at most.
  std::map<int, int64_t> WorkingBytes(const Graph& graph) const {
    std::map<int, int64_t> working;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (!IsBackward(node) || node.forward < 0) continue;
      const int segment = SegmentOf(graph, graph.node(node.forward));
      if (segment < 0) continue;
      int64_t bytes = 0;
      const auto add = [&](ValueId value) { bytes += ShardBytes(graph.value(value).type, *graph.value(value).dist); };
      for (const ValueId output : node.outputs) add(output);
      for (const ValueId input : node.inputs) {
        if (IsBackward(graph.node(graph.value(input).producer))) add(input);
      }
      working[segment] = std::max(working[segment], bytes);
    }
    return working;
  }

  void FindChains(const Graph& kept, const Graph& again) {
    const Topology topology = JobTopology(options_);
    const CostModel costs(topology);
    std::map<int, double> seconds;
    for (NodeId id = 0; id < again.num_nodes(); ++id) {
      const Node& node = again.node(id);
      if (node.role != Role::kRecompute || node.forward < 0) continue;
      const OpDef& op = *ops_.Find(node.op);
      const int segment = SegmentOf(again, again.node(node.forward));
      if (segment < 0 || op.kind == OpKind::kBoxing) continue;
      seconds[segment] += costs.Compute(again, node, op, NodeView(again, node, op).layout());
    }
    const std::map<int, int64_t> held = HeldBytes(kept), held_again = HeldBytes(again);
    std::map<int, int64_t> working = WorkingBytes(kept);
    const PlanMesh mesh = options_.MeshOf(kept.name());
    std::set<int> seen;
    for (NodeId id = 0; id < kept.num_nodes(); ++id) {
      const Node& node = kept.node(id);
      const int segment = SegmentOf(kept, node);
      if (segment < 0 || !IsForward(node) || seconds.count(segment) == 0 || !seen.insert(segment).second) continue;
      StageChain& chain = chains_[*node.placement];
      const int64_t stages = mesh.num_stages(), stage = mesh.StageOf(node.placement->ranks()[0]);
      chain.micro_batches = std::max<int64_t>(1, std::min<int64_t>(options_.micro_batches, stages - stage));
      chain.segments.push_back(segment);
      const auto of = [&](const std::map<int, int64_t>& bytes) {
        return bytes.count(segment) > 0 ? bytes.at(segment) : 0;
      };
      chain.costs.push_back({of(held), std::min(of(held), of(held_again)), working[segment], seconds.at(segment)});
    }
  }

  const BoxGraphs& box_;
  const OpRegistry& ops_;
  CompileOptions options_;
  const int64_t cap_;
  StageChains chains_;
};

}  // namespace

int64_t MostBytesOfDevice(const pb::PlanSet& plan) {
  int64_t most = 0;
  for (const pb::RankClass& ranks : plan.classes()) most = std::max(most, BytesOfDevice(ranks));
  return most;
}

absl::StatusOr<pb::PlanSet> CompileUnderCap(const BoxGraphs& box, const CompileOptions& options, const OpRegistry& ops,
                                            std::vector<std::string>* warnings) {
  CapSearch search(box, options, ops);
  OF_ASSIGN_OR_RETURN(const std::set<int> chosen, search.Run());
  CompileOptions with = options;
  with.recompute.what = search.what();
  with.recompute.memory_bytes = 0;
  with.recompute.segments = chosen;
  OF_ASSIGN_OR_RETURN(const std::vector<BoxedGraph> boxed, box(with, warnings));
  OF_ASSIGN_OR_RETURN(pb::PlanSet plan, CompileBoxed(boxed, with, ops));
  if (warnings != nullptr && !chosen.empty()) {
    warnings->push_back(absl::StrCat("recompute.memory: ", chosen.size(), " '", search.what(),
                                     "' are computed again, so that a device takes ", MostBytesOfDevice(plan), " of ",
                                     options.recompute.memory_bytes, " bytes"));
  }
  return plan;
}

}  // namespace oneflow
