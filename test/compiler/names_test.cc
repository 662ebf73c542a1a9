// The law of names: they are for people. Whatever nodes are called after each pass, the passes come to the same result,
// and so does planning but for the names that it hands on; only variables' names are identities.
#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/lower/compile.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/convnet.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/models/mlp.h"
#include "proto/plan.pb.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

// Gives all nodes but variables names that say nothing, in an order that says nothing.
void Rename(Graph& graph, std::mt19937& random) {
  std::vector<int> numbers(graph.num_nodes());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), random);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (node.op != "variable") node.name = absl::StrCat(random() % 2 == 0 ? "x/" : "", "n", numbers[id], "/grad");
  }
}

// What the passes make of a program; all nodes but variables are called by their position.
absl::StatusOr<Program> Boxed(const Program& program, const CompileOptions& options, std::mt19937* renaming) {
  VariableDists variables;
  Program boxed;
  for (Graph graph : program) {
    PassContext context{options, Ops(), variables, JobTopology(options)};
    for (const Pass& pass : Pipeline()) {
      OF_RETURN_IF_ERROR(RunPipeline({&pass, 1}, graph, context, nullptr));
      if (renaming != nullptr) Rename(graph, *renaming);
    }
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      Node& node = graph.node(id);
      if (node.op == "variable") {
        variables.emplace(node.name, *graph.value(node.outputs[0]).dist);
      } else {
        node.name = absl::StrCat("node", id);
      }
    }
    boxed.push_back(std::move(graph));
  }
  return boxed;
}

std::vector<std::string> TextsOf(const Program& program) {
  std::vector<std::string> texts;
  for (const Graph& graph : program) texts.push_back(GraphToText(graph));
  return texts;
}

// The plan of boxed graphs, without the names that are for people.
absl::StatusOr<std::string> NamelessPlan(const Program& boxed, const CompileOptions& options) {
  std::vector<BoxedGraph> graphs;
  for (const Graph& graph : boxed) graphs.push_back({graph, graph.is_trained() ? options.micro_batches : 1});
  OF_ASSIGN_OR_RETURN(pb::PlanSet set, CompileBoxed(graphs, options, Ops()));
  for (pb::ClassPlan& plan : *set.mutable_plans()) {
    for (pb::ClassRegister& reg : *plan.mutable_registers()) reg.clear_name();
    for (pb::ClassMemory& memory : *plan.mutable_memory()) {
      for (pb::MemoryUse& use : *memory.mutable_largest()) use.clear_name();
    }
    for (pb::ClassActor& actor : *plan.mutable_actors()) {
      actor.clear_name();
      for (pb::ClassInstruction& instruction : *actor.mutable_instructions()) instruction.clear_node();
    }
  }
  return set.DebugString();
}

struct Case {
  std::string name;
  absl::StatusOr<Program> program;
};

std::vector<Case> Cases() {
  const GptConfig gpt{.vocabulary = 128, .layers = 4, .width = 16, .heads = 2, .context = 8, .dropout = 0.1};
  GptConfig tied = gpt;
  tied.tied_embedding = true;
  return {{"gpt", GptProgram(gpt, {"text"}, {8, 8}, Continuation{"x", 0}, Ops())},
          {"gpt, tied", GptProgram(tied, {"text"}, {8, 0}, std::nullopt, Ops())},
          {"convnet", ConvNetProgram({.channels = {4, 6}, .hidden = 8, .dropout = 0.1}, {}, {8, 8}, Ops())},
          {"mlp", MlpProgram({.widths = {16, 12}}, {}, {8, 8}, Ops())}};
}

TEST(NamesTest, RenamingEveryNodeAfterEachPassChangesNothing) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::vector<Axis>> meshes = {
      {}, {{"dp", 2}}, {{"tp", 2}}, {{"pp", 2}}, {{"pp", 2}, {"dp", 2}, {"tp", 2}}};
  for (const Case& c : Cases()) {
    ASSERT_OK(c.program.status());
    for (const std::vector<Axis>& mesh : meshes) {
      for (const int micro_batches : {1, 4}) {
        CompileOptions options = Options(mesh, micro_batches);
        options.check_replicas = random() % 2 == 0;
        options.keep_gradients = random() % 2 == 0;
        options.recompute.gathers = random() % 2 == 0;
        if (random() % 2 == 0 && !c.program->front().segments.empty()) options.recompute.what = "layers";
        if (random() % 2 == 0) options.meshes.emplace("evaluate", PlanMesh(*Mesh::Create({{"tp", 3}}), 1));
        SCOPED_TRACE(absl::StrCat(c.name, " on ", options.mesh.size(), " ranks, ", micro_batches, " micro-batches"));
        options.device = random() % 2 == 0 ? DeviceKind::kCpu : DeviceKind::kCuda;
        ASSERT_OK_AND_ASSIGN(const Program plain, Boxed(*c.program, options, nullptr));
        ASSERT_OK_AND_ASSIGN(Program renamed, Boxed(*c.program, options, &random));
        EXPECT_EQ(TextsOf(renamed), TextsOf(plain));
        for (Graph& graph : renamed) Rename(graph, random);
        ASSERT_OK_AND_ASSIGN(const std::string plan, NamelessPlan(plain, options));
        ASSERT_OK_AND_ASSIGN(const std::string plan_of_renamed, NamelessPlan(renamed, options));
        EXPECT_TRUE(plan_of_renamed == plan) << "the plans differ";
      }
    }
  }
}

}  // namespace
}  // namespace oneflow::testing
