#include "compiler/select/agreement.h"

#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// w and its momentum, which one update overwrites. The dists of the small problem are 0 and 1.
class AgreementTest : public ::testing::Test {
 protected:
  AgreementTest() {
    GraphBuilder b(Ops(), "update");
    const Tensor w = Weight(b, "w", {16, 4}), momentum = Weight(b, "momentum", {16, 4});
    const Tensor rate = Constant(b, {DType::kFloat32, {}}, 0.1);
    b.Op("sgd_update", {w, momentum, Constant(b, {DType::kFloat32, {16, 4}}, 0.5), rate, rate}, {{"momentum", 0.9}});
    graph_ = *b.Finish();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (Ops().Find(node.op)->mutates.empty()) continue;
      update_ = id;
      w_ = graph_.value(node.inputs[0]).producer;
      momentum_ = graph_.value(node.inputs[1]).producer;
    }
    nodes_.resize(graph_.num_nodes());
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) Give(id, {{0, 0}, {1, 1}});
  }

  // The options of a node: how it reads its first and its second input, or how it makes its output.
  void Give(NodeId id, const std::vector<std::pair<int, int>>& options) {
    nodes_[id].options.clear();
    layouts_[id].clear();
    for (const auto& [first, second] : options) {
      SearchProblem::Option option;
      option.inputs.assign(graph_.node(id).inputs.size(), first);
      if (option.inputs.size() > 1) option.inputs[1] = second;
      option.outputs.assign(graph_.node(id).outputs.size(), first);
      Layout layout;
      for (int dist : option.inputs) layout.inputs.push_back({Sbp::Split(dist)});
      for (int dist : option.outputs) layout.outputs.push_back({Sbp::Split(dist)});
      nodes_[id].options.push_back(std::move(option));
      layouts_[id].push_back(std::move(layout));
    }
  }

  absl::StatusOr<Agreement> Find() {
    conflict_.clear();
    return FindAgreement({graph_, Ops(), nodes_, [this](NodeId id) -> const auto& { return layouts_[id];
  }}, conflict_);
}  // namespace

// The unit of the update and its variables.
SearchProblem::Unit UnitOfUpdate() {
  const absl::StatusOr<Agreement> agreement = Find();
  EXPECT_OK(agreement.status());
  if (!agreement.ok()) return {};
  for (const SearchProblem::Unit& unit : agreement->units) {
    if (unit.nodes[0] == update_) return unit;
  }
  ADD_FAILURE() << "no unit begins with the update";
  return {};
}

Graph graph_;
NodeId update_ = -1, w_ = -1, momentum_ = -1;
std::vector<SearchProblem::Node> nodes_;
std::map<NodeId, std::vector<Layout>> layouts_;
std::vector<NodeId> conflict_;
};  // namespace oneflow::testing

TEST_F(AgreementTest, AnOpMovesTogetherWithWhatItOverwrites) {
  const SearchProblem::Unit unit = UnitOfUpdate();
  EXPECT_THAT(unit.nodes, ElementsAre(update_, w_, momentum_));
  EXPECT_THAT(unit.options, ElementsAre(ElementsAre(0, 0, 0), ElementsAre(1, 1, 1)));
}

TEST_F(AgreementTest, OtherNodesAreAlone) {
  ASSERT_OK_AND_ASSIGN(const Agreement agreement, Find());
  EXPECT_THAT(agreement.notes, IsEmpty());
  EXPECT_EQ(agreement.units.size(), static_cast<size_t>(graph_.num_nodes()) - 2);
  for (const SearchProblem::Unit& unit : agreement.units) {
    if (unit.nodes[0] == update_) continue;
    EXPECT_EQ(unit.nodes.size(), 1u);
    EXPECT_THAT(unit.options, ElementsAre(ElementsAre(0), ElementsAre(1)));
  }
}

TEST_F(AgreementTest, AVariableLiesAsTheOpReadsIt) {
  Give(update_, {{0, 1}, {1, 1}});
  EXPECT_THAT(UnitOfUpdate().options, ElementsAre(ElementsAre(0, 0, 1), ElementsAre(1, 1, 1)));
  Give(momentum_, {{0, 0}});
  EXPECT_THAT(Find().status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot overwrite")));
}

TEST_F(AgreementTest, WhoCannotAgreeIsNamedWithTheNearestChange) {
  Give(w_, {{1, 0}});
  Give(momentum_, {{0, 0}});
  EXPECT_THAT(Find().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("cannot overwrite its variables where they lie: 'w' ("),
                             HasSubstr("may lie as (S(1)), 'momentum' ("), HasSubstr("nearest: 'w' as (S(0))"))));
  EXPECT_THAT(conflict_, ElementsAre(update_, w_, momentum_));
}

}  // namespace
}  // namespace oneflow::testing
