#include "compiler/explain/facts.h"

#include <functional>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "compiler/explain/explain.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_text.h"
#include "compiler/lower/program_text.h"
#include "oneflow_core/models/convnet.h"
#include "oneflow_core/models/gpt.h"
#include "test/compiler/explain/example.h"
#include "test/support/names.h"
#include "test/support/spelled_out.h"

namespace oneflow::testing {
namespace {

Program Gpt() {
  const GptConfig config{.vocabulary = 64, .layers = 2, .width = 32, .heads = 4, .context = 16, .dropout = 0.1};
  return *GptProgram(config, {.path = "text"}, {.train = 8, .evaluate = 8}, Continuation{}, Ops());
}

const BoxingFacts* BoxingOf(const GraphFacts& facts, const std::string& tensor) {
  for (const BoxingFacts& boxing : facts.boxings) {
    if (boxing.tensor == BoxedValue(facts, tensor)) return &boxing;
  }
  return nullptr;
}

TEST(FactsTest, BytesAreThoseThatThePlanMoves) {
  struct Case {
    std::vector<Axis> axes;
    int micro_batches, ranks_per_process;
    std::map<std::string, PlanMesh> meshes = {};
  };
  const PlanMesh tp3(*Mesh::Create({{"tp", 3}}), 1), alone(Mesh(), 5);
  for (const Case& c : std::vector<Case>{{{{"dp", 2}, {"tp", 2}}, 1, 2},
                                         {{{"dp", 3}}, 1, 1},
                                         {{{"pp", 2}, {"dp", 2}}, 4, 2},
                                         {{{"dp", 2}, {"tp", 2}}, 1, 2, {{"evaluate", tp3}, {"generate", alone}}},
                                         {{{"pp", 2}, {"dp", 2}, {"tp", 2}}, 2, 4}}) {
    CompileOptions options = Options(c.axes, c.micro_batches);
    options.ranks_per_process = c.ranks_per_process;
    options.meshes = c.meshes;
    SCOPED_TRACE(absl::StrCat(options.mesh.axes()[0].name, " ", options.mesh.size(), " ", c.micro_batches));
    ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(Gpt(), options));
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, Compile(Gpt(), options, Ops()));
    ASSERT_EQ(job.graphs.size(), 3);
    const pb::Program program = testing::SpelledOut(plan);
    for (int i = 0; i < plan.plans_size(); ++i) {
      EXPECT_EQ(job.graphs[i].bytes_moved().total(), PredictedBytesMoved(program.plans(i))) << plan.plans(i).name();
      ASSERT_OK_AND_ASSIGN(const int64_t planned, PlannedBytesMoved(plan, plan.plans(i)));
      EXPECT_EQ(planned, PredictedBytesMoved(program.plans(i)));
    }
    EXPECT_GT(job.graphs[0].bytes_moved().total(), 0);
  }
}

Program ConvNet() {
  const ImageData data{.train_images = "images", .train_labels = "labels"};
  return *ConvNetProgram({}, data, {.train = 8}, Ops());
}

struct DrawnJob {
  std::string model;
  Program program;
  CompileOptions options;
};

// A model under options that change what the compiler makes of it.
DrawnJob Draw(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](size_t n) { return static_cast<int>(random() % n); };
  const bool gpt = pick(3) > 0;
  const int micro_batches = 1 << pick(3);
  static const std::vector<std::vector<Axis>> kMeshes = {
      {}, {{"dp", 2}}, {{"dp", 2}, {"tp", 2}}, {{"tp", 2}}, {{"pp", 2}, {"dp", 2}}, {{"pp", 2}, {"tp", 2}}};
  DrawnJob job{gpt ? "gpt" : "convnet", gpt ? Gpt() : ConvNet(),
               Options(kMeshes[pick(gpt ? kMeshes.size() : 2)], micro_batches)};
  CompileOptions& options = job.options;
  options.ranks_per_process = options.mesh.size() > 1 ? 1 + pick(2) : 1;
  options.device = pick(3) == 0 ? DeviceKind::kCuda : DeviceKind::kCpu;
  options.fuse = pick(4) > 0;
  options.precision.compute = pick(2) == 0 ? DType::kBFloat16 : DType::kFloat32;
  if (gpt && pick(2) == 0) options.recompute.what = pick(2) == 0 ? "layers" : "attention";
  options.recompute.whole = pick(2) == 0;
  options.adds_in_products = pick(2) == 0;
  options.keep_gradients = pick(4) == 0;
  options.check_replicas = pick(4) == 0;
  options.optimizer.clip_norm = pick(2);
  return job;
}

std::string Text(ValueId id, const TensorType& type, const std::string& sbp, MemoryLayout layout) {
  return absl::StrCat(id, " ", type.ToString(), sbp, layout == MemoryLayout::kRowMajor ? "" : " in blocks");
}

std::string Text(const pb::PlanSet& set, const pb::ClassOperand& operand) {
  const pb::ClassTensor& tensor = set.tensors(operand.tensor());
  const std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  return Text(operand.value(), {static_cast<DType>(tensor.dtype()), Shape(dims), tensor.ragged() - 1}, tensor.sbp(),
              static_cast<MemoryLayout>(tensor.layout()));
}

std::string Text(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return Text(id, value.type, ToString(value.dist->sbp), value.layout);
}

// All nodes but variables, with the op, the values and the layouts of each: what the plan runs is what is explained.
std::set<std::string> NodesOf(const pb::PlanSet& set, const pb::ClassPlan& plan) {
  std::set<std::string> nodes;
  for (const pb::ClassActor& actor : plan.actors()) {
    for (const pb::ClassInstruction& instruction : actor.instructions()) {
      std::string text = absl::StrCat(instruction.op(), " '", instruction.node(), "'");
      for (const pb::ClassOperand& input : instruction.inputs()) absl::StrAppend(&text, " ", Text(set, input));
      absl::StrAppend(&text, " ->");
      for (const pb::ClassOperand& output : instruction.outputs()) absl::StrAppend(&text, " ", Text(set, output));
      nodes.insert(std::move(text));
    }
  }
  return nodes;
}

std::set<std::string> NodesOf(const GraphFacts& facts) {
  std::set<std::string> nodes;
  for (NodeId id = 0; id < facts.boxed.num_nodes(); ++id) {
    const Node& node = facts.boxed.node(id);
    if (facts.Is(node, OpKind::kVariable)) continue;
    std::string text = absl::StrCat(node.op, " '", node.name, "'");
    for (const ValueId input : node.inputs) absl::StrAppend(&text, " ", Text(facts.boxed, input));
    absl::StrAppend(&text, " ->");
    for (const ValueId output : node.outputs) absl::StrAppend(&text, " ", Text(facts.boxed, output));
    nodes.insert(std::move(text));
  }
  return nodes;
}

void ForDrawnJobs(uint32_t seeds, const std::function<void(const DrawnJob& drawn, const JobFacts& job)>& check) {
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    const DrawnJob drawn = Draw(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", drawn.model));
    ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(drawn.program, drawn.options));
    check(drawn, job);
  }
}

TEST(FactsTest, WhatIsExplainedIsWhatRuns) {
  int fused = 0;
  ForDrawnJobs(24, [&](const DrawnJob& drawn, const JobFacts& job) {
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, Compile(drawn.program, drawn.options, Ops()));
    ASSERT_EQ(static_cast<int>(job.graphs.size()), plan.plans_size());
    for (int i = 0; i < plan.plans_size(); ++i) {
      const GraphFacts& facts = job.graphs[i];
      EXPECT_EQ(NodesOf(facts), NodesOf(plan, plan.plans(i))) << plan.plans(i).name();
      ASSERT_OK_AND_ASSIGN(const int64_t planned, PlannedBytesMoved(plan, plan.plans(i)));
      EXPECT_EQ(facts.bytes_moved().total(), planned) << plan.plans(i).name();
      fused += static_cast<int>(facts.parts.size());
    }
  });
  EXPECT_GT(fused, 100);
}

// Every op of the user is explained by its name, though another may compute it.
TEST(FactsTest, NoOpOfTheUserIsLost) {
  int parts = 0;
  ForDrawnJobs(12, [&](const DrawnJob&, const JobFacts& job) {
    for (const GraphFacts& facts : job.graphs) {
      for (NodeId id = 0; id < facts.placed.num_nodes(); ++id) {
        const Node& node = facts.placed.node(id);
        if (facts.Is(node, OpKind::kAnnotation)) continue;
        ASSERT_GE(facts.boxed_of[id], 0) << Where(node);
        const Node& whole = facts.boxed.node(facts.boxed_of[id]);
        if (whole.serial == node.serial) continue;
        ++parts;
        EXPECT_THAT(facts.parts.at(facts.boxed_of[id]), Contains(id)) << Where(node);
      }
    }
  });
  EXPECT_GT(parts, 100);
}

// Of ragged rows, whose counts are known when it runs.
TEST(FactsTest, BytesOfRaggedRowsAreTheMostThatMove) {
  for (const bool ragged : {false, true}) {
    GraphBuilder b(Ops(), "rows");
    const Tensor counts = RowCounts(b.Variable("ids", {DType::kInt32, {4, 6}}, "zeros", {}, false), 4);
    Tensor x = b.Variable("x", {DType::kFloat32, {4, 4, 6, 8}}, "normal(1)", {{"dp", Sbp::Split(0)}}, false);
    if (ragged) x = KeepRows(x, counts);
    Fetch(ReduceSum(Square(x.To({{"dp", Sbp::Split(1)}}))), "y");
    ASSERT_OK_AND_ASSIGN(const Graph graph, b.Finish());
    ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({graph}, Options({{"dp", 2}})));
    EXPECT_EQ(job.graphs[0].bytes_moved().at_most, ragged);
    const std::string text = ExplainJob(job);
    EXPECT_EQ(absl::StrContains(text, "boxing moves at most "), ragged) << text;
    EXPECT_EQ(absl::StrContains(text, "at most 1.50 KiB"), ragged) << text;
  }
}

TEST(FactsTest, EveryStepBelongsToOneBoxing) {
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(Gpt(), Options({{"pp", 2}, {"dp", 2}, {"tp", 2}}, 2)));
  for (const GraphFacts& facts : job.graphs) {
    std::vector<NodeId> steps;
    for (const BoxingFacts& boxing : facts.boxings) {
      EXPECT_EQ(TensorOf(facts, boxing.to), boxing.tensor);
      EXPECT_EQ(facts.boxed.node(boxing.steps[0].node).inputs[0], boxing.from);
      EXPECT_EQ(facts.boxed.node(boxing.steps.back().node).outputs[0], boxing.to);
      for (const BoxingStepFacts& step : boxing.steps) steps.push_back(step.node);
    }
    EXPECT_EQ(steps.size(), NamesOf(facts.boxed, "boxing").size());
    EXPECT_EQ(std::set<NodeId>(steps.begin(), steps.end()).size(), steps.size());
  }
}

TEST(FactsTest, ABoxingSaysItsStepsLinksAndPrice) {
  const JobFacts job = ExampleFacts();
  const BoxingFacts* const boxing = BoxingOf(job.graphs[0], "down/matmul");
  ASSERT_NE(boxing, nullptr);  // (S(0),P) -> (S(0),B)
  ASSERT_EQ(boxing->steps.size(), 2);
  EXPECT_EQ(boxing->steps[0].collective, Collective::kReduceScatter);
  EXPECT_EQ(boxing->steps[1].collective, Collective::kAllGather);
  EXPECT_THAT(boxing->steps[0].axes, ElementsAre("tp"));
  // The ranks of tp share a process. An all-reduce of 8 x 4 floats in two groups of two moves the tensor twice.
  EXPECT_EQ(boxing->bytes.same_process, 2 * 8 * 4 * 4);
  EXPECT_EQ(boxing->bytes.total(), boxing->bytes.same_process);
  EXPECT_GT(boxing->seconds, boxing->steps[0].seconds + boxing->steps[1].seconds);
}

TEST(FactsTest, MicroBatchesMultiplyWhatHappensInEach) {
  const JobFacts one = ExampleFacts(1), four = ExampleFacts(4);
  const BoxingFacts* const once = BoxingOf(one.graphs[0], "down/matmul");
  const BoxingFacts* const often = BoxingOf(four.graphs[0], "down/matmul");
  ASSERT_NE(once, nullptr);
  ASSERT_NE(often, nullptr);
  EXPECT_EQ(once->acts, 1);
  EXPECT_EQ(often->acts, 4);
  EXPECT_EQ(often->bytes_per_step().total(), 4 * once->bytes_per_step().total());
  EXPECT_DOUBLE_EQ(often->seconds_per_step(), 4 * once->seconds_per_step());
}

TEST(FactsTest, TheChosenLayoutIsAmongItsCandidates) {
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf(Gpt(), Options({{"dp", 2}, {"tp", 2}})));
  for (const GraphFacts& facts : job.graphs) {
    for (NodeId id = 0; id < facts.placed.num_nodes(); ++id) {
      EXPECT_THAT(facts.candidates[id], ::testing::Contains(facts.chosen[id])) << facts.placed.node(id).name;
    }
  }
}

TEST(FactsTest, AGradientIsFoundForVariablesAndForWhatOpsMake) {
  for (const int micro_batches : {1, 4}) {
    const JobFacts job = ExampleFacts(micro_batches);
    const GraphFacts& facts = job.graphs[0];
    const auto gradient = [&](const std::string& name) {
      const ValueId value = facts.gradients[BoxedValue(facts, name)];
      return value < 0 ? "" : facts.boxed.node(facts.boxed.value(value).producer).name;
    };
    EXPECT_EQ(gradient("up/weight"), micro_batches == 1 ? "up/matmul/matmul_wgrad" : "up/weight/grad");
    EXPECT_EQ(gradient("up/relu"), "down/matmul/matmul");
    EXPECT_EQ(gradient("up/matmul"), "up/relu/relu_grad");
    EXPECT_EQ(gradient("data"), "");
    EXPECT_EQ(facts.gradients[BoxedValue(facts, "losses", 1)], -1) << "what is kept for the backward pass has none";
    EXPECT_EQ(gradient("up/relu/relu_grad"), "") << "gradients have none";
  }
}

TEST(FactsTest, WithoutALossThereAreNoGradients) {
  Graph graph = *GraphFromText(kExample, Ops());
  graph.losses.clear();
  ASSERT_OK_AND_ASSIGN(const JobFacts job, FactsOf({graph}, Options({{"dp", 2}})));
  EXPECT_EQ(job.graphs[0].gradients[BoxedValue(job.graphs[0], "up/weight")], -1);
}

TEST(FactsTest, ErrorsAreThoseOfThePasses) {
  Graph graph = *GraphFromText(kExample, Ops());
  graph.value(NodeOf(graph, "up/weight").outputs[0]).hint = {{"tp", Sbp::Partial()}};
  EXPECT_THAT(FactsOf({graph}, Options({{"tp", 2}})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("pass 'select-sbp'")));
}

}  // namespace
}  // namespace oneflow::testing
