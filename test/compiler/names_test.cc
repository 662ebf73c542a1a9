// The law of names: they are for people. Whatever nodes are called after each pass, the passes come to the same result;
// only variables' names are identities.
#include <algorithm>
#include <numeric>
#include <random>

#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/convnet.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/models/mlp.h"
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

// What the passes make of a program, as texts in which all nodes but variables are called by their position.
absl::StatusOr<std::vector<std::string>> BoxedTexts(const Program& program, const CompileOptions& options,
                                                    std::mt19937* renaming) {
  VariableDists variables;
  std::vector<std::string> texts;
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
    texts.push_back(GraphToText(graph));
  }
  return texts;
}

struct Case {
  std::string name;
  absl::StatusOr<Program> program;
};

std::vector<Case> Cases() {
  const GptConfig gpt{.vocabulary = 128, .layers = 4, .width = 16, .heads = 2, .context = 8, .dropout = 0.1};
  GptConfig tied = gpt;
  tied.tied_embedding = true;
  return {{"gpt", GptProgram(gpt, {"text"}, {8, 8}, GptGeneration{"x", 0}, Ops())},
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
        if (random() % 2 == 0) options.meshes.emplace("evaluate", PlanMesh(*Mesh::Create({{"tp", 3}}), 1));
        SCOPED_TRACE(absl::StrCat(c.name, " on ", options.mesh.size(), " ranks, ", micro_batches, " micro-batches"));
        ASSERT_OK_AND_ASSIGN(const std::vector<std::string> plain, BoxedTexts(*c.program, options, nullptr));
        ASSERT_OK_AND_ASSIGN(const std::vector<std::string> renamed, BoxedTexts(*c.program, options, &random));
        EXPECT_EQ(renamed, plain);
      }
    }
  }
}

}  // namespace
}  // namespace oneflow::testing
