#include "compiler/code_choices.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

// A matrix with a window.
struct Chosen {
  std::string name;
  DistType window;  // of [ranks,n,m]
  CodeCounts counts;
  int64_t n = 0, m = 0;
};

SbpHint HintOf(const DistType& dist) {
  SbpHint hint;
  for (size_t a = 0; a < dist.sbp.size(); ++a) hint.push_back({dist.placement.axes()[a].name, dist.sbp[a]});
  return hint;
}

class Choice {
 public:
  Choice(const CompileOptions& options, const Codec& codec, std::string axis, int64_t ranks, const OpRegistry& ops)
      : options_(*options.compress),
        codec_(codec),
        axis_(std::move(axis)),
        ranks_(ranks),
        coding_(options_, codec, ranks),
        b_(ops, Graph(kChoicePlan)) {}

  absl::StatusOr<Graph> Write(const Graph& trained, const VariableDists& variables, const OpRegistry& ops) {
    std::vector<Chosen> all;
    for (NodeId id = 0; id < trained.num_nodes(); ++id) {
      const Node& node = trained.node(id);
      const auto window = variables.find(absl::StrCat(node.name, "/compress/", kCodeWindow));
      if (!ops.Is(node.op, OpKind::kVariable) || window == variables.end()) continue;
      const Shape& shape = trained.value(node.outputs[0]).type.shape;
      all.push_back(
          {node.name, window->second, coding_.CountsOf(node.name, shape), shape[0], shape.count() / shape[0]});
    }
    if (all.empty()) {
      return absl::InvalidArgumentError("compress.adaptive: no matrix travels as a code, so there is none to choose");
    }
    Write(all);
    return b_.Finish();
  }

 private:
  void Write(const std::vector<Chosen>& all) {
    std::vector<Tensor> errors;
    for (const Chosen& one : all) errors.push_back(ErrorsOf(one));
    const Tensor counts = Choose(Concat(errors, 0), all);
    for (size_t i = 0; i < all.size(); ++i) {
      const Tensor count = Reshape(Slice(counts, 0, static_cast<int64_t>(i), 1), {});
      {
        const GraphBuilder::Scope scope(b_, absl::StrCat(all[i].name, "/compress"));
        b_.Op("assign", {CountVariable(b_, all[i].counts), count.To({{axis_, Sbp::Broadcast()}})});
      }
      b_.Op("fetch", {Cast(count, DType::kFloat32)}, {{"name", all[i].name}});
    }
  }

  // The window begins anew.
  Tensor ErrorsOf(const Chosen& one) {
    const GraphBuilder::Scope scope(b_, absl::StrCat(one.name, "/compress"));
    const TensorType type = {DType::kFloat32, {ranks_, one.n, one.m}};
    const Tensor window = b_.Variable(kCodeWindow, type, "zeros", HintOf(one.window), /*trainable=*/false);
    const Tensor sum = ReduceSum(window, {0});
    if (sum.valid()) b_.mutable_graph().value(sum.id()).hint = {{axis_, Sbp::Partial()}};
    SbpHint everywhere;
    for (const Axis& axis : one.window.placement.axes()) everywhere.push_back({axis.name, Sbp::Broadcast()});
    const Tensor errors = codec_.errors(b_, sum.To(everywhere), one.counts.counts, options_);
    b_.Op("assign", {window, Constant(b_, type, 0).To(HintOf(one.window))});
    return options_.choice->squared ? errors : Sqrt(errors);
  }

  Tensor Choose(const Tensor& errors, const std::vector<Chosen>& all) {
    std::vector<int64_t> sizes, usual, counts, bytes;
    for (const Chosen& one : all) {
      sizes.push_back(static_cast<int64_t>(one.counts.counts.size()));
      usual.push_back(one.counts.usual);
      counts.insert(counts.end(), one.counts.counts.begin(), one.counts.counts.end());
      for (const double of_count : one.counts.bytes) bytes.push_back(static_cast<int64_t>(of_count));
    }
    return b_.Op1(
        "choose_codes", {errors},
        {{"sizes", sizes}, {"usual", usual}, {"counts", counts}, {"bytes", bytes}, {"alpha", options_.choice->alpha}});
  }

  const CompressOptions& options_;
  const Codec& codec_;
  const std::string axis_;
  const int64_t ranks_;
  const Coding coding_;
  GraphEditor b_;
};

}  // namespace

Tensor CountVariable(GraphEditor& editor, const CodeCounts& counts) {
  const std::string init = absl::StrCat("constant(", counts.counts[counts.usual], ")");
  const std::string name = absl::StrCat(kCodeCount, counts.counts.back());
  return editor.Variable(name, {DType::kInt32, Shape()}, init, {}, /*trainable=*/false);
}

absl::StatusOr<Graph> ChoiceGraph(const Graph& trained, const CompileOptions& options, const OpRegistry& ops,
                                  const VariableDists& variables) {
  const Mesh mesh = options.MeshOf(trained.name()).mesh();
  OF_ASSIGN_OR_RETURN(const std::string axis, FindAxis(mesh, options.compress->axis, "compress.axis"));
  OF_ASSIGN_OR_RETURN(const Codec* const codec, FindCodec(options.compress->codec));
  return Choice(options, *codec, axis, mesh.AxisSize(axis), ops).Write(trained, variables, ops);
}

}  // namespace oneflow
