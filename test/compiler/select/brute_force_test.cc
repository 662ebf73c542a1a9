// Law: on small graphs of real ops the selection is the best of all. Every choice of layouts is tried, and its time
// added up here by the definition of search.h; what the selection says of itself is not asked.
#include <limits>
#include <random>
#include <set>

#include "compiler/select/cost_model.h"
#include "compiler/select/select_sbp.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

// A few ops on samples, some of them annotated, some with a weight.
class SmallGraph {
 public:
  explicit SmallGraph(uint32_t seed) : random_(seed), b_(Ops(), "small") {}

  Graph Make() {
    const int64_t n = int64_t{64} << Pick(5);
    values_.push_back(Constant(b_, {DType::kFloat32, {n, 32}}, 1).To(AnyHint()));
    const int ops = 2 + Pick(3);
    for (int i = 0; i < ops; ++i) values_.push_back(Next());
    Fetch(ReduceSum(values_.back()), "y");
    return *b_.Finish();
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % n); }
  Tensor Any() { return values_[values_.size() - 1 - Pick(std::min<int>(2, static_cast<int>(values_.size())))]; }
  SbpHint AnyHint() {
    if (Pick(2) == 0) return {};
    return {{Pick(2) == 0 ? "dp" : "tp", Pick(4) == 0 ? Sbp::Broadcast() : Sbp::Split(Pick(2))}};
  }

  Tensor Next() {
    const Tensor x = Any();
    switch (Pick(7)) {
      case 0:
        return Relu(x);
      case 1:
        return Add(x, Any());
      case 2:
        return Softmax(x);
      case 3:
        return Transpose(Transpose(x, {1, 0}), {1, 0});
      case 4:
        return x.To(AnyHint());
      case 5:
        return LayerNorm(x, Weight(b_, absl::StrCat("gamma", values_.size()), {32}),
                         Weight(b_, absl::StrCat("beta", values_.size()), {32}));
      default:
        return MatMul(x, Weight(b_, absl::StrCat("w", values_.size()), {32, 32}, AnyHint()));
    }
  }

  std::mt19937 random_;
  GraphBuilder b_;
  std::vector<Tensor> values_;
};

class BruteForce {
 public:
  BruteForce(const Graph& graph, const Topology& topology)
      : graph_(graph),
        topology_(topology),
        costs_(topology_),
        consumers_(graph.Consumers()),
        wanted_(graph.num_values()) {
    CandidateFinder finder(graph, Ops());
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      absl::StatusOr<std::vector<Layout>> layouts = finder.Find(id);
      EXPECT_OK(layouts.status());
      candidates_.push_back(layouts.ok() ? *layouts : std::vector<Layout>());
    }
    chosen_.resize(graph.num_nodes(), nullptr);
  }

  // What a choice costs, as selection compares it: first the boxings of variables.
  Cost CostOf(const std::vector<Layout>& layouts) {
    Cost cost;
    for (auto& wanted : wanted_) wanted.clear();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      chosen_[id] = &layouts[id];
      cost += Added(id);
    }
    return cost;
  }

  Cost Least() {
    for (auto& wanted : wanted_) wanted.clear();
    least_ = Cost::Impossible();
    Try(0, {});
    return least_;
  }

 private:
  // What the node adds to the cost of those before it. Remembers what it wants.
  Cost Added(NodeId id) {
    const Node& node = graph_.node(id);
    Cost cost{0, costs_.Compute(graph_, node, *Ops().Find(node.op), *chosen_[id])};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId value = node.inputs[i];
      const DistType to{*node.placement, chosen_[id]->inputs[i]};
      if (wanted_[value].insert(ToString(to.sbp) + to.placement.ToString()).second) cost += Boxing(value, to);
    }
    return cost;
  }

  Cost Boxing(ValueId value, const DistType& to) {
    const NodeId maker = graph_.value(value).producer;
    const DistType from{*graph_.node(maker).placement, chosen_[maker]->outputs[graph_.value(value).output]};
    const double seconds =
        costs_.Boxing(costs_.TypeId(graph_.value(value).type), costs_.DistId(from), costs_.DistId(to));
    const bool of_variable = Ops().Is(graph_.node(maker).op, OpKind::kVariable) && from != to;
    if (seconds >= CostModel::kImpossible) return Cost::Impossible();
    return {of_variable ? 1.0 : 0.0, seconds};
  }

  void Try(NodeId id, const Cost& so_far) {
    if (!(so_far < least_)) return;  // no price is negative
    if (id == graph_.num_nodes()) {
      least_ = so_far;
      return;
    }
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    for (const Layout& layout : candidates_[id]) {
      chosen_[id] = &layout;
      std::vector<std::set<std::string>> before;
      for (const ValueId input : inputs) before.push_back(wanted_[input]);
      Try(id + 1, so_far + Added(id));
      for (size_t i = inputs.size(); i-- > 0;) wanted_[inputs[i]] = before[i];
    }
  }

  const Graph& graph_;
  const Topology topology_;
  CostModel costs_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<std::vector<Layout>> candidates_;
  std::vector<const Layout*> chosen_;
  std::vector<std::set<std::string>> wanted_;  // by value: how its readers so far want it
  Cost least_;
};

TEST(BruteForceTest, SmallGraphsAreLaidOutInTheBestOfAllWays) {
  int boxed = 0, gathered = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Axis> axes = seed % 3 == 0   ? std::vector<Axis>{{"dp", 2}, {"tp", 2}}
                                   : seed % 3 == 1 ? std::vector<Axis>{{"tp", 3}}
                                                   : std::vector<Axis>{{"dp", 2}};
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    CompileOptions options = Options(axes);
    if (seed % 2 == 0) options.ranks_per_process = options.mesh.size();
    ASSERT_OK_AND_ASSIGN(const Graph graph, RunUpTo("assign-rates", SmallGraph(seed).Make(), options));
    const Topology topology = JobTopology(options);
    ASSERT_OK_AND_ASSIGN(const Selection selection, SelectSbp(graph, Ops(), topology, {}, {}));
    BruteForce all(graph, topology);
    const Cost least = all.Least(), chosen = all.CostOf(selection.layouts);
    ASSERT_TRUE(least.possible());
    EXPECT_EQ(chosen.avoided, least.avoided);
    EXPECT_LE(chosen.seconds, least.seconds * (1 + 1e-9));
    EXPECT_GE(chosen.seconds, least.seconds * (1 - 1e-9)) << "a layout that is no candidate";
    gathered += least.avoided > 0;
    boxed += selection.num_prices > 0;
  }
  EXPECT_GT(boxed, 30) << "in most graphs there is something to choose";
  EXPECT_GT(gathered, 0) << "in some, annotations leave no way around the boxing of a weight";
}

}  // namespace
}  // namespace oneflow::testing
