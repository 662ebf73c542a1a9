#include "compiler/select/candidates.h"

#include <set>

#include "oneflow_core/graph_editor.h"
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// The candidates of the node called `name`, as text, on a mesh of `axes`.
absl::StatusOr<std::vector<std::string>> CandidatesOf(const Graph& source, const std::string& name,
                                                      std::vector<Axis> axes) {
  Graph graph = source;
  OF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create(std::move(axes)));
  CandidateFinder finder(graph, Ops());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    OF_ASSIGN_OR_RETURN(graph.node(id).placement, mesh.Place({}));
    OF_ASSIGN_OR_RETURN(const std::vector<Layout> layouts, finder.Find(id));
    if (graph.node(id).name != name) continue;
    std::vector<std::string> texts;
    for (const Layout& layout : layouts) texts.push_back(layout.ToString());
    return texts;
  }
  return absl::NotFoundError(name);
}

Graph Product(SbpHint weight, SbpHint data = {}) {
  GraphBuilder b(Ops(), "product");
  const Tensor x = ReadSamples(b, 8, std::move(data)).rows;
  Fetch(MatMul(x, Weight(b, "w", {16, 4}, std::move(weight))).To({{"dp", Sbp::Split(0)}}), "y");
  return *b.Finish();
}

TEST(CandidatesTest, AreProductsOfSignaturesPerAxis) {
  ASSERT_OK_AND_ASSIGN(const auto one, CandidatesOf(Product({}), "matmul", {{"tp", 2}}));
  ASSERT_OK_AND_ASSIGN(const auto two, CandidatesOf(Product({}), "matmul", {{"tp", 2}, {"cp", 2}}));
  EXPECT_THAT(one, AllOf(Contains("(S(0)),(B)->(S(0))"), Contains("(S(1)),(S(0))->(P)"), Contains("(B),(S(1))->(S(1))"),
                         Contains("(B),(B)->(B)")));
  EXPECT_EQ(two.size(), one.size() * one.size());
  EXPECT_THAT(two, Contains("(S(0),B),(B,S(1))->(S(0),S(1))"));
}

TEST(CandidatesTest, MeetHintsOnAxesThatTheMeshHas) {
  const Graph graph = Product({{"tp", Sbp::Split(1)}, {"absent", Sbp::Split(0)}});
  ASSERT_OK_AND_ASSIGN(const auto candidates, CandidatesOf(graph, "w", {{"tp", 2}}));
  EXPECT_THAT(candidates, ElementsAre("->(S(1))"));
}

TEST(CandidatesTest, KeepDataSplitAsItWasAskedFor) {
  const Graph graph = Product({}, {{"dp", Sbp::Split(0)}});
  ASSERT_OK_AND_ASSIGN(const auto candidates, CandidatesOf(graph, "matmul", {{"dp", 2}}));
  EXPECT_THAT(candidates, ElementsAre("(S(0)),(B)->(S(0))"));
}

// A product whose data is split over samples and whose result is asked to be otherwise, with priorities.
Graph Contradiction(int of_data, int of_result, Sbp result = Sbp::Split(1)) {
  GraphEditor b(Ops(), Graph("contradiction"));
  const Tensor x = ReadSamples(b, 8, {{"dp", Sbp::Split(0), of_data}}).rows;
  const ValueId y = MatMul(x, Weight(b, "w", {16, 4})).id();
  b.mutable_graph().value(y).hint = {{"dp", result, of_result}};
  return *b.Finish();
}

TEST(CandidatesTest, OfContradictingAnnotationsTheOneOfTheGreaterNumberYields) {
  const std::vector<Axis> axes = {{"dp", 2}};
  ASSERT_OK_AND_ASSIGN(const auto data_first, CandidatesOf(Contradiction(0, 1), "matmul", axes));
  EXPECT_THAT(data_first, ElementsAre("(S(0)),(B)->(S(0))"));
  ASSERT_OK_AND_ASSIGN(const auto result_first, CandidatesOf(Contradiction(2, 1), "matmul", axes));
  EXPECT_THAT(result_first, ElementsAre("(B),(S(1))->(S(1))"));
  ASSERT_OK_AND_ASSIGN(const auto equal, CandidatesOf(Contradiction(1, 1), "matmul", axes));
  EXPECT_EQ(equal, result_first) << "what was asked of the value itself goes before what reaches it";
}

TEST(CandidatesTest, OnlyAWishOfPriorityZeroIsAnErrorIfNoSignatureGivesIt) {
  const Sbp impossible = Sbp::Partial(Reduction::kMax);
  EXPECT_THAT(CandidatesOf(Contradiction(0, 0, impossible), "matmul", {{"dp", 2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("asked for P(max)")));
  ASSERT_OK_AND_ASSIGN(const auto yielded, CandidatesOf(Contradiction(0, 3, impossible), "matmul", {{"dp", 2}}));
  EXPECT_THAT(yielded, ElementsAre("(S(0)),(B)->(S(0))"));
}

TEST(CandidatesTest, SplitsThatCannotBeNestedYieldTheWeakestFirst) {
  GraphEditor b(Ops(), Graph("attention"));
  const Tensor q = Weight(b, "q", {1, 4, 8});
  const ValueId y = b.Op("attention", {q, q, q}, {{"heads", int64_t{2}}, {"causal", true}})[0].id();
  b.mutable_graph().value(y).hint = {{"tp", Sbp::Split(2)}, {"cp", Sbp::Split(2), 1}};  // 2 heads, 4 parts
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(const auto layouts, CandidatesOf(graph, "attention", {{"tp", 2}, {"cp", 2}}));
  EXPECT_THAT(layouts, Each(HasSubstr("->(S(2),")));
  EXPECT_THAT(layouts, Each(Not(HasSubstr("(S(2),S(2))"))));
}

TEST(CandidatesTest, LeaveNoRankEmptyUnlessAsked) {
  ASSERT_OK_AND_ASSIGN(const auto free, CandidatesOf(Product({}), "matmul", {{"tp", 5}}));
  EXPECT_THAT(free, Each(Not(HasSubstr("(B),(S(1))->"))));  // 4 columns, 5 ranks
  ASSERT_OK_AND_ASSIGN(const auto asked, CandidatesOf(Product({{"tp", Sbp::Split(1)}}), "w", {{"tp", 5}}));
  EXPECT_THAT(asked, ElementsAre("->(S(1))"));
}

TEST(CandidatesTest, NestOnlyWhereTheOpDividesByTheProduct) {
  GraphBuilder b(Ops(), "attention");
  const Tensor q = Weight(b, "q", {1, 4, 8});
  b.Op("attention", {q, q, q}, {{"heads", int64_t{2}}, {"causal", true}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(const auto one, CandidatesOf(graph, "attention", {{"tp", 2}}));
  EXPECT_THAT(one, Contains(HasSubstr("(S(2)),(S(2)),(S(2))->")));
  ASSERT_OK_AND_ASSIGN(const auto two, CandidatesOf(graph, "attention", {{"tp", 2}, {"cp", 2}}));
  EXPECT_THAT(two, AllOf(Contains(HasSubstr("(S(2),B)")), Each(Not(HasSubstr("(S(2),S(2))")))));
}

// What the finder decides from its cache has to be what the mathematics says, no more and no less.
TEST(CandidatesTest, AreAllPairsThatMayBeCombined) {
  GraphBuilder b(Ops(), "heads");
  const Tensor q = Weight(b, "q", {12, 12, 24});
  const Tensor out = b.Op("attention", {q, q, q}, {{"heads", int64_t{12}}, {"causal", true}})[0];
  Reshape(out, {12, 12, 4, 6});
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  for (const std::vector<Axis>& axes :
       {std::vector<Axis>{{"a", 2}, {"b", 2}}, {{"a", 2}, {"b", 3}}, {{"a", 4}, {"b", 2}}}) {
    ASSERT_OK_AND_ASSIGN(const Mesh mesh, Mesh::Create(axes));
    ASSERT_OK_AND_ASSIGN(const Placement placement, mesh.Place({}));
    CandidateFinder finder(graph, Ops());
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      graph.node(id).placement = placement;
      ASSERT_OK_AND_ASSIGN(const std::vector<Layout> found, finder.Find(id));
      std::vector<std::vector<Signature>> per_axis;
      for (const Axis& axis : axes) per_axis.push_back(*Signatures1d(Ops(), graph, id, axis.size));
      for (const Signature& first : per_axis[0]) {
        for (const Signature& second : per_axis[1]) {
          Layout layout;
          for (size_t i = 0; i < first.inputs.size(); ++i) layout.inputs.push_back({first.inputs[i], second.inputs[i]});
          for (size_t i = 0; i < first.outputs.size(); ++i)
            layout.outputs.push_back({first.outputs[i], second.outputs[i]});
          const bool legal = NodeView(graph, id, Ops()).CheckLayout(layout, placement).ok() && !first.is_ring &&
                             !second.is_ring;  // these axes are for no sequences
          EXPECT_EQ(std::find(found.begin(), found.end(), layout) != found.end(), legal)
              << graph.node(id).op << " " << layout.ToString() << " on " << placement.ToString();
        }
      }
    }
  }
}

// Along axes for sequences, beside heads that cost may choose, unless options choose.
TEST(CandidatesTest, RingsAreForSequences) {
  GraphBuilder b(Ops(), "heads");
  const SbpHint by_tokens = {{"outer", Sbp::Split(1)}, {"inner", Sbp::Split(1)}};
  const Tensor q = Relu(Weight(b, "q", {2, 12, 24})).To(by_tokens);
  b.Op("attention", {q, q, q}, {{"heads", int64_t{4}}}, std::source_location::current(), "core");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  const auto found = [&](AxisRole role, RingUse rings) {
    const Mesh mesh = *Mesh::Create({{"outer", 2, role}, {"inner", 2, role}});
    CandidateFinder finder(graph, Ops(), OwnValues(), rings);
    std::set<std::string> of_q;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      graph.node(id).placement = *mesh.Place({});
      const absl::StatusOr<std::vector<Layout>> layouts = finder.Find(id);
      EXPECT_OK(layouts);
      if (graph.node(id).name != "core" || !layouts.ok()) continue;
      for (const Layout& layout : *layouts) of_q.insert(ToString(layout.inputs[0]));
    }
    return of_q;
  };
  using ::testing::AllOf;
  using ::testing::Contains;
  EXPECT_THAT(found(AxisRole::kModel, RingUse::kByCost), Not(Contains(HasSubstr("S(1)"))));
  EXPECT_THAT(found(AxisRole::kSequence, RingUse::kByCost), AllOf(Contains("(S(1),S(1))"), Contains("(S(2),S(2))"),
                                                                  Contains("(S(1),S(2))"), Contains("(S(2),S(1))")));
  EXPECT_THAT(found(AxisRole::kSequence, RingUse::kNever), Not(Contains(HasSubstr("S(1)"))));
  EXPECT_THAT(found(AxisRole::kSequence, RingUse::kWherePossible), ::testing::ElementsAre("(S(1),S(1))"));
  const std::set<std::string> outer = found(AxisRole::kSequence, RingUse::kOuter);
  EXPECT_THAT(outer, Contains("(S(1),S(2))"));
  EXPECT_THAT(outer, ::testing::Each(::testing::StartsWith("(S(1),")));
  EXPECT_THAT(outer, Not(Contains("(S(1),S(1))")));
}

// Where documents are packed, chunks of tokens give some ranks more to do than others; heads do not.
TEST(CandidatesTest, WhatDependsOnTheDataIsNoRingUnlessAsked) {
  for (const bool packed : {false, true}) {
    for (const RingUse rings : {RingUse::kByCost, RingUse::kWherePossible}) {
      GraphBuilder b(Ops(), "packed");
      const Tensor q = Relu(Weight(b, "q", {1, 12, 24})).To({{"cp", Sbp::Split(1)}});
      const Tensor documents = Constant(b, {DType::kInt32, {1, 12}}, 1);
      std::vector<Tensor> inputs = {q, q, q};
      if (packed) inputs.insert(inputs.end(), 2, documents);
      b.Op("attention", inputs, {{"heads", int64_t{4}}}, std::source_location::current(), "core");
      ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
      const Mesh mesh = *Mesh::Create({{"cp", 2, AxisRole::kSequence}});
      CandidateFinder finder(graph, Ops(), OwnValues(), rings);
      std::set<std::string> of_q;
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        graph.node(id).placement = *mesh.Place({});
        ASSERT_OK_AND_ASSIGN(const std::vector<Layout> layouts, finder.Find(id));
        if (graph.node(id).name != "core") continue;
        for (const Layout& layout : layouts) of_q.insert(ToString(layout.inputs[0]));
      }
      EXPECT_EQ(of_q.count("(S(1))"), packed && rings == RingUse::kByCost ? 0 : 1) << packed;
      EXPECT_EQ(of_q.count("(S(2))"), rings == RingUse::kByCost ? 1 : 0) << packed;
    }
  }
}

TEST(CandidatesTest, OfAnUpdateFollowItsVariablesEvenWhereRanksStayEmpty) {
  GraphBuilder b(Ops(), "update");
  const Tensor w = Weight(b, "w", {7, 1}, {{"tp", Sbp::Split(1)}});
  b.Op("assign", {w, Constant(b, w.type(), 1)});
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  EXPECT_THAT(CandidatesOf(graph, "assign", {{"tp", 2}}),
              ::testing::Property(&absl::StatusOr<std::vector<std::string>>::value, Contains("(S(1)),(S(1))->")));
}

TEST(CandidatesTest, NameNodeLineWishAndSignaturesIfAHintCannotBeMet) {
  GraphBuilder b(Ops(), "wrong");
  Fetch(ReadSamples(b, 8, {{"dp", Sbp::Split(0)}}).rows, "x");
  b.Variable("w", {DType::kFloat32, {4}}, "zeros", {{"tp", Sbp::Partial()}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
  EXPECT_THAT(CandidatesOf(graph, "w", {{"tp", 2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("node 'w' (variable, "), HasSubstr("candidates_test.cc:"),
                             HasSubstr("asked for P along mesh axis 'tp' of 2 ranks"), HasSubstr("->S(0) | ->B"))));
}

}  // namespace
}  // namespace oneflow::testing
