// What tests of passes share: the standard ops, small graphs, and ways to run a part of the pipeline and to look at a
// graph.
#pragma once

#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "oneflow_core/functional.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {

inline CompileOptions Options(std::vector<Axis> axes, int micro_batches = 1) {
  CompileOptions options;
  options.job = "test";
  options.mesh = *Mesh::Create(std::move(axes));
  options.micro_batches = micro_batches;
  return options;
}

// Images [n,1,4,4] as rows [n,16], and their labels.
struct Samples {
  Tensor rows, labels;
};
inline Samples ReadSamples(GraphBuilder& b, int64_t n, SbpHint hint = {{"dp", Sbp::Split(0)}}) {
  const std::vector<Tensor> data = b.Op("read_data", {},
                                        {{"dataset", std::string("images")},
                                         {"batch", n},
                                         {"channels", int64_t{1}},
                                         {"height", int64_t{4}},
                                         {"width", int64_t{4}}});
  return {Reshape(data[0].To(hint), {n, 16}), data[1].To(hint)};
}

inline Tensor Weight(GraphBuilder& b, const std::string& name, Shape shape, SbpHint hint = {}) {
  return b.Variable(name, {DType::kFloat32, std::move(shape)}, "normal(0.1)", std::move(hint));
}

// Two layers of `width` on `n` rows; `up` and `down` are hints on the weights.
inline Graph Mlp(int64_t n = 8, int64_t width = 32, SbpHint up = {}, SbpHint down = {}) {
  GraphBuilder b(Ops(), "mlp");
  const Samples samples = ReadSamples(b, n);
  const Tensor hidden = Relu(MatMul(samples.rows, Weight(b, "up", {16, width}, up)));
  const Tensor logits = MatMul(hidden, Weight(b, "down", {width, 4}, down));
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, samples.labels));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return *b.Finish();
}

// Runs the passes up to and including `last`.
inline absl::StatusOr<Graph> RunUpTo(absl::string_view last, Graph graph, const CompileOptions& options,
                                     const VariableDists& variables = {}) {
  size_t count = 0;
  while (Pipeline()[count].name != last) ++count;
  PassContext context{options, Ops(), variables, JobTopology(options)};
  OF_RETURN_IF_ERROR(RunPipeline(Pipeline().subspan(0, count + 1), graph, context, nullptr));
  return graph;
}

inline std::vector<std::string> NamesOf(const Graph& graph, absl::string_view op) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op == op) names.push_back(graph.node(id).name);
  }
  return names;
}

// The node of that name; a test that asks for one that does not exist fails here.
inline const Node& NodeOf(const Graph& graph, absl::string_view name) {
  const NodeId id = graph.FindNode(name);
  EXPECT_GE(id, 0) << "no node '" << name << "'";
  return graph.node(id < 0 ? 0 : id);
}

inline const Node& ProducerOf(const Graph& graph, const Node& node, int input) {
  return graph.node(graph.value(node.inputs[input]).producer);
}

// How the first output of that node lies: "(S(0),B)".
inline std::string SbpOf(const Graph& graph, absl::string_view name) {
  return ToString(graph.value(NodeOf(graph, name).outputs[0]).dist->sbp);
}

}  // namespace oneflow::testing
