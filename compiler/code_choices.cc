#include "compiler/code_choices.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

// Beside the square of a gradient, which may be 0.
constexpr double kLeastSquaredNorm = 1e-30;

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
    std::vector<Tensor> errors, usual;
    for (const Chosen& one : all) {
      const GraphBuilder::Scope scope(b_, absl::StrCat(one.name, "/compress"));
      const Tensor gradient = TakeWindow(one);
      errors.push_back(ErrorsOf(one, gradient));
      if (options_.choice->accordion > 0) usual.push_back(UsualOf(one, gradient));
    }
    std::vector<Tensor> inputs = {Concat(errors, 0)};
    if (!usual.empty()) inputs.push_back(Concat(usual, 0));
    const Tensor counts = Choose(inputs, all);
    for (size_t i = 0; i < all.size(); ++i) {
      const Tensor count = Reshape(Slice(counts, 0, static_cast<int64_t>(i), 1), {});
      {
        const GraphBuilder::Scope scope(b_, absl::StrCat(all[i].name, "/compress"));
        b_.Op("assign", {CountVariable(b_, all[i].counts), count.To({{axis_, Sbp::Broadcast()}})});
      }
      b_.Op("fetch", {Cast(count, DType::kFloat32)}, {{"name", all[i].name}});
    }
  }

  // The sum of the window over ranks and steps, which all ranks have. The window begins anew.
  Tensor TakeWindow(const Chosen& one) {
    const TensorType type = {DType::kFloat32, {ranks_, one.n, one.m}};
    const Tensor window = b_.Variable(kCodeWindow, type, "zeros", HintOf(one.window), /*trainable=*/false);
    const Tensor sum = ReduceSum(window, {0});
    if (sum.valid()) b_.mutable_graph().value(sum.id()).hint = {{axis_, Sbp::Partial()}};
    SbpHint everywhere;
    for (const Axis& axis : one.window.placement.axes()) everywhere.push_back({axis.name, Sbp::Broadcast()});
    const Tensor gradient = sum.To(everywhere);
    b_.Op("assign", {window, Constant(b_, type, 0).To(HintOf(one.window))});
    return gradient;
  }

  Tensor ErrorsOf(const Chosen& one, const Tensor& gradient) {
    Tensor errors = codec_.errors(b_, gradient, one.counts.counts, options_);
    if (options_.choice->relative) errors = Div(errors, AddScalar(ReduceSum(Square(gradient)), kLeastSquaredNorm));
    return options_.choice->squared ? errors : Sqrt(errors);
  }

  // i32[1]: its first candidate, the smallest, or its last one.
  Tensor UsualOf(const Chosen& one, const Tensor& gradient) {
    const Tensor last = b_.Variable(kCodeNorm, {DType::kFloat32, Shape()}, "zeros", {}, /*trainable=*/false);
    const Tensor norm = Sqrt(ReduceSum(Square(gradient)));
    const Tensor is_calm = Abs(norm - last) < last * options_.choice->accordion;
    b_.Op("assign", {last, norm});
    const auto largest = static_cast<double>(one.counts.counts.size() - 1);
    return Reshape(Cast((1 - Cast(is_calm, DType::kFloat32)) * largest, DType::kInt32), {1});
  }

  // `inputs`: of the op.
  Tensor Choose(const std::vector<Tensor>& inputs, const std::vector<Chosen>& all) {
    std::vector<int64_t> sizes, usual, counts, bytes;
    for (const Chosen& one : all) {
      sizes.push_back(static_cast<int64_t>(one.counts.counts.size()));
      usual.push_back(one.counts.usual);
      counts.insert(counts.end(), one.counts.counts.begin(), one.counts.counts.end());
      for (const double of_count : one.counts.bytes) bytes.push_back(static_cast<int64_t>(of_count));
    }
    return b_.Op1(
        "choose_codes", inputs,
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
