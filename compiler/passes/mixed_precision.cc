// Mixed precision as casts in the graph, so that all later passes see the type of each computation.
//
// The job or the author (Node::precision) asks for a type for every node. The op decides what it makes of this
// (OpDef::precision). Products compute in the type. Ops that work element by element, or move elements, follow their
// inputs and take the narrow type if one of them has it. All others compute in the type that the author wrote: f32,
// unless a cast of the author stands before it, as before a softmax of scores that are kept narrow.
//
// A sum is made in f32 and cast where it is read. So partial addends are added in f32 before rounding, and a softmax
// behind the sum reads unrounded numbers. Where neither is the case, narrow-products makes one op of both.
//
// A value has one cast per type, made at its first use. The cast of a weight is made once per step, since it is the
// same in all micro-batches.
#include <algorithm>
#include <map>

#include "compiler/passes/add_cast.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/ragged.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

class Mixer {
 public:
  Mixer(const Graph& graph, const PassContext& context)
      : in_(graph), context_(context), names_(graph), out_(graph.name()), known_(graph.num_values()) {
    out_.segments = graph.segments;
  }

  absl::StatusOr<Graph> Run() {
    for (NodeId id = 0; id < in_.num_nodes(); ++id) OF_RETURN_IF_ERROR_AT(Visit(id), Where(in_.node(id)));
    for (const ValueId loss : in_.losses) {
      const Node& producer = in_.node(in_.value(loss).producer);
      out_.losses.push_back(As(loss, in_.value(loss).type.dtype, producer));
    }
    return std::move(out_);
  }

 private:
  // The replacement of a value of the old graph.
  struct Known {
    DType type = DType::kFloat32;  // for readers without a preference
    std::vector<ValueId> values;   // one per type; the first is that of its node
  };

  DType TypeOf(ValueId value) const { return out_.value(value).type.dtype; }
  DType Written(ValueId value) const { return in_.value(value).type.dtype; }

  absl::Status Visit(NodeId id) {
    Node node = in_.node(id);
    const OpDef& op = *context_.ops.Find(node.op);
    const DType asked = node.precision.value_or(context_.options.precision.compute);
    const std::optional<DType> common = Common(node, op, asked);
    std::vector<TensorType> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId value = node.inputs[i];
      const bool full = std::count(op.full_inputs.begin(), op.full_inputs.end(), static_cast<int>(i)) > 0;
      const bool takes = common.has_value() && !full && IsFloating(Written(value));
      node.inputs[i] = op.kind == OpKind::kCast ? As(value, known_[value].type, node)
                                                : As(value, takes ? *common : Written(value), node);
      inputs.push_back(out_.value(node.inputs[i]).type);
    }
    OF_ASSIGN_OR_RETURN(std::vector<TensorType> outputs, InferTypes(op, {inputs, node.attrs}));
    const bool rounds = op.precision == Precision::kCompute && common.has_value();
    if (rounds && op.has_out_dtype && IsNarrow(outputs[0].dtype) && !node.attrs.Has("out_dtype")) {
      node.attrs.Set("out_dtype", std::string(Name(DType::kFloat32)));
      outputs[0].dtype = DType::kFloat32;
    }
    return Add(id, std::move(node), outputs, rounds ? common : std::nullopt);
  }

  // The type for all floating inputs of the node, except those that are f32 in any case; nullopt: each keeps its own.
  std::optional<DType> Common(const Node& node, const OpDef& op, DType asked) const {
    if (op.precision == Precision::kFull || op.kind == OpKind::kCast) return std::nullopt;
    if (op.precision == Precision::kCompute) return IsNarrow(asked) ? std::optional(asked) : std::nullopt;
    if (!IsNarrow(asked)) return std::nullopt;
    const auto is_narrow = [&](ValueId value) { return IsNarrow(known_[value].type); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_narrow) ? std::optional(asked) : std::nullopt;
  }

  // Adds the node; its first output is rounded for readers without a preference.
  absl::Status Add(NodeId id, Node node, const std::vector<TensorType>& types, std::optional<DType> rounded) {
    for (ValueId& value : node.after) value = known_[value].values[0];
    if (node.forward >= 0) node.forward = added_[node.forward];
    if (node.variable >= 0) node.variable = added_[node.variable];
    const std::vector<ValueId> old = in_.node(id).outputs;
    const NodeId added = out_.AddNode(std::move(node), types);
    added_.push_back(added);
    for (size_t i = 0; i < old.size(); ++i) {
      const ValueId output = out_.node(added).outputs[i];
      out_.value(output).hint = in_.value(old[i]).hint;
      known_[old[i]] = {rounded.has_value() && i == 0 ? *rounded : TypeOf(output), {output}};
    }
    return absl::OkStatus();
  }

  // The value as `dtype`, for `reader`.
  ValueId As(ValueId value, DType dtype, const Node& reader) {
    std::vector<ValueId>& values = known_[value].values;
    for (const ValueId candidate : values) {
      if (TypeOf(candidate) == dtype) return candidate;
    }
    values.push_back(AddCast(out_, values[0], dtype, reader, names_));
    return values.back();
  }

  const Graph& in_;
  const PassContext& context_;
  UniqueNames names_;
  Graph out_;
  std::vector<Known> known_;   // by value of the old graph
  std::vector<NodeId> added_;  // by node of the old graph
};

}  // namespace

absl::StatusOr<bool> MixPrecision(Graph& graph, PassContext& context) {
  bool asked = IsNarrow(context.options.precision.compute);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const std::optional<DType>& precision = graph.node(id).precision;
    asked = asked || (precision.has_value() && IsNarrow(*precision));
  }
  if (!asked) return false;
  OF_ASSIGN_OR_RETURN(graph, Mixer(graph, context).Run());
  return true;
}

}  // namespace oneflow
