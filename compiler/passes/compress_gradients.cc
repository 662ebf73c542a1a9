// Gradients that travel as codes along one axis of the mesh. What is new serves the variable; the last of it that is a
// reduction is its gradient from then on (VariableGradients).
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/str_format.h"
#include "compiler/code_choices.h"
#include "compiler/parameter_groups.h"
#include "compiler/passes/edges/coding.h"
#include "compiler/passes/learning_rate.h"
#include "compiler/passes/loss_scale.h"
#include "compiler/passes/passes.h"
#include "compiler/points.h"
#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

// Beside a rate that may be 0.
constexpr double kLeastRate = 1e-20;

class GradientCompressor {
 public:
  GradientCompressor(Graph graph, const PassContext& context, const CompressOptions& options, const Codec& codec)
      : editor_(context.ops, std::move(graph)),
        mesh_(context.options.MeshOf(editor_.graph().name()).mesh()),
        schedule_(context.options.schedule),
        options_(options),
        codec_(codec) {}

  absl::StatusOr<Graph> Run() {
    OF_ASSIGN_OR_RETURN(axis_, FindAxis(mesh_, options_.axis, "compress.axis"));
    coding_.emplace(options_, codec_, mesh_.AxisSize(axis_));
    if (options_.participants > mesh_.AxisSize(axis_)) {
      return absl::InvalidArgumentError(absl::StrCat("compress.participants is ", options_.participants,
                                                     " but there are ", mesh_.AxisSize(axis_), " ranks along '", axis_,
                                                     "'"));
    }
    const std::vector<ValueId> gradients = VariableGradients(editor_.graph());
    OF_RETURN_IF_ERROR(CheckGroups(gradients));
    if (options_.from_anchor && codec_.keeps_errors) {
      editor_.set_role(Role::kUpdate);
      rate_ = AddScalar(LearningRate(editor_, schedule_), kLeastRate);
    }
    if (options_.participants > 0) senders_ = DrawSenders();
    for (NodeId id = 0; id < static_cast<NodeId>(gradients.size()); ++id) {
      if (gradients[id] < 0 || !coding_->IsCoded(editor_.graph().node(id).name, ShapeOf(id))) continue;
      Compress(id, gradients[id]);
    }
    return editor_.Finish();
  }

 private:
  // Each has a matrix.
  absl::Status CheckGroups(const std::vector<ValueId>& gradients) const {
    std::set<const CompressGroup*> used;
    std::vector<std::string> names;
    for (NodeId id = 0; id < static_cast<NodeId>(gradients.size()); ++id) {
      if (gradients[id] < 0 || ShapeOf(id).rank() < 2) continue;
      names.push_back(editor_.graph().node(id).name);
      used.insert(coding_->GroupOf(names.back()));
    }
    for (const CompressGroup& group : options_.groups) {
      if (used.count(&group) > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("compress.groups: '", group.match, "' has no matrix: none of ",
                                                     SomeOf(names), " matches that is in no group before it"));
    }
    return absl::OkStatus();
  }

  const Shape& ShapeOf(NodeId variable) const {
    return editor_.graph().value(editor_.graph().node(variable).outputs[0]).type.shape;
  }

  // How the gradient lies as a matrix along all axes but the codec's and that of the stages.
  SbpHint Whole(const SbpHint& of_variable, int rank) const {
    SbpHint whole;
    for (const Axis& axis : mesh_.axes()) {
      if (axis.name == axis_ || axis.role() == AxisRole::kStage) continue;
      AxisSbp lies = {axis.name, Sbp::Broadcast()};
      for (const AxisSbp& wish : of_variable) {
        const bool stays = wish.sbp.is_split() && (wish.sbp.dim() == 0 || (wish.sbp.dim() == 1 && rank == 2));
        if (wish.axis == axis.name && stays) lies.sbp = wish.sbp;
      }
      whole.push_back(lies);
    }
    return whole;
  }

  // The same ranks for all matrices: others send nothing in this exchange. f32[ranks], 1 or 0.
  Tensor DrawSenders() {
    editor_.set_role(Role::kUpdate);
    const int64_t ranks = mesh_.AxisSize(axis_), count = options_.participants;
    const bool half = StepKindOf(editor_.graph()) == StepKind::kHalf;
    const GraphBuilder::Scope scope(editor_, half ? "half_senders" : "senders");
    const auto of = [&](int64_t size, double value) {
      return Constant(editor_, {DType::kFloat32, Shape({size})}, value);
    };
    return ScatterAdd(of(count, 1), TopK(UniformLike(of(ranks, 0)), count).indices, 0, ranks);
  }

  // The sum of the gradient's addends, as a matrix.
  Tensor SumOf(const std::string& variable, Tensor addends, const Shape& shape, const SbpHint& hint) {
    const GraphBuilder::Scope scope(editor_, absl::StrCat(variable, "/compress"));
    if (addends.type().dtype != DType::kFloat32) addends = editor_.Op1("cast", {addends}, {{"dtype", "f32"}});
    if (shape.rank() != 2) addends = Reshape(addends, {shape[0], shape.count() / shape[0]});
    const CompressOptions options = coding_->OptionsOf(variable);
    CodeSize size;
    if (options.choice.has_value()) {
      const CodeCounts counts = coding_->CountsOf(variable, shape);
      size = {counts.counts.back(), CountVariable(editor_, counts)};
    } else if (codec_.count != nullptr) {
      size.room =
          codec_.count(static_cast<double>(addends.shape()[0]), static_cast<double>(addends.shape()[1]), options);
    }
    size.senders = senders_;
    CodecStep step(editor_, addends, axis_, mesh_.AxisSize(axis_), Whole(hint, shape.rank()), options, size);
    if (options.windows.count(editor_.graph().name()) > 0) {
      const Tensor window = step.OwnState(kCodeWindow, addends.shape(), /*split=*/true);
      step.Set(window, window + step.AsRows(addends));
    }
    const bool from_shift = options.from_anchor || options.shift_rate > 0;
    const Tensor sum = from_shift ? SumFromShift(step) : codec_.sum(step);
    if (options.shift_rate > 0) CheckCodesOfRanks(step, "shift_rate");
    if (options.participants > 0 && StepKindOf(editor_.graph()) == StepKind::kStep) {
      CheckCodesOfRanks(step, "participants");
    }
    return sum;
  }

  void CheckCodesOfRanks(const CodecStep& step, absl::string_view field) {
    if (step.sent().valid()) return;
    editor_.Fail(absl::InvalidArgumentError(absl::StrCat("compress.", field, ": codes of ", codec_.name,
                                                         options_.own_seeds ? "" : " without seeds of their own",
                                                         " are not of one rank each")));
  }

  // The addends less what every rank has of its own as a shift; and what that is in the sum, beside the code's.
  Tensor SumFromShift(CodecStep& step) {
    const Shape shape({step.rows(), step.columns()});
    const Tensor own = step.OwnState("shift", shape, /*split=*/true);
    const Tensor all = step.SumState("shift_sum", shape);
    const Tensor rows = step.AsRows(step.InAddends(step.addends(), /*split=*/true));
    if (StepKindOf(editor_.graph()) == StepKind::kAnchor) {
      const Tensor sum = step.Everywhere(step.addends());
      step.Set(own, rows);
      step.Set(all, sum);
      return sum;
    }
    if (options_.of_batches && StepKindOf(editor_.graph()) == StepKind::kHalf) {
      step.Set(own, rows);  // of which nobody else needs to know
      return all;
    }
    Tensor difference = rows - own;
    if (!options_.from_anchor) {
      const Tensor coded = step.SumOf(codec_, difference);
      if (!step.sent().valid()) return coded;
      const double rate = options_.shift_rate;
      step.Set(own, own + Reshape(Scale(step.sent(), rate), own.shape().dims()));
      step.Set(all, all + Scale(coded, rate));
      return all + coded;
    }
    if (!codec_.keeps_errors) return all + step.SumOf(codec_, difference);
    // What is left out is in units of the weights, so that it counts as much when the rate is another.
    return all + Div(step.SumOf(codec_, Mul(difference, rate_)), rate_);
  }

  void Compress(NodeId id, ValueId gradient) {
    const Node variable = editor_.graph().node(id);
    const TensorType type = editor_.graph().value(variable.outputs[0]).type;
    const SbpHint hint = editor_.graph().value(variable.outputs[0]).hint;
    editor_.set_source(variable.source);
    editor_.set_placement_hint(variable.at);
    editor_.set_role(Role::kUpdate, -1, id);
    const std::string& name = variable.name;
    const Tensor sum = SumOf(name, Tensor(&editor_, gradient), type.shape, hint);
    editor_.set_role(Role::kReduction, -1, id);
    editor_.Op1("reshape", {sum}, {{"shape", type.shape.dims()}}, std::source_location::current(),
                absl::StrCat(name, "/grad_sum"));
  }

  GraphEditor editor_;
  const Mesh mesh_;
  const ScheduleOptions& schedule_;
  const CompressOptions& options_;
  const Codec& codec_;
  std::string axis_;
  Tensor rate_;     // of the step; only where it is needed
  Tensor senders_;  // of CodeSize; the same for all variables
  std::optional<Coding> coding_;
};

absl::Status CheckParameter(const Codec& codec, double parameter) {
  const bool is_whole = !codec.is_whole || parameter == std::floor(parameter);
  if (is_whole && parameter >= codec.least && parameter <= codec.most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("the %s of %s is %.10g but must be %sin [%.10g, %.10g]",
                                                    codec.parameter, codec.name, parameter,
                                                    codec.is_whole ? "a whole number " : "", codec.least, codec.most));
}

}  // namespace

absl::StatusOr<bool> CompressGradients(Graph& graph, PassContext& context) {
  if (!graph.is_trained() || !context.options.compress.has_value()) return false;
  const CompressOptions& options = *context.options.compress;
  if (options.codec.empty() || options.exact.count(graph.name()) > 0) return false;
  OF_ASSIGN_OR_RETURN(const Codec* const codec, FindCodec(options.codec));
  OF_RETURN_IF_ERROR(CheckParameter(*codec, options.parameter));
  for (const CompressGroup& group : options.groups) {
    if (group.parameter == 0) continue;
    if (group.exact) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "compress.groups, '%s': is to be exact, and to have a %s of %.10g; it can be only one of both", group.match,
          codec->parameter, group.parameter));
    }
    if (const absl::Status status = CheckParameter(*codec, group.parameter); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("compress.groups, '", group.match, "': ", status.message()));
    }
  }
  if (options.bucket < 8 || options.bucket % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("compress.bucket is ", options.bucket, " but must be a multiple of 8"));
  }
  if (options.choice.has_value() && codec->errors == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("compress.adaptive: a ", codec->parameter, " of ", codec->name, " cannot be chosen"));
  }
  if (ScalesLoss(graph)) {
    return absl::InvalidArgumentError(
        "gradients of a scaled loss (precision.compute F16) cannot be compressed: what a step leaves out would be in "
        "the scale of that step");
  }
  OF_ASSIGN_OR_RETURN(graph, GradientCompressor(std::move(graph), context, options, *codec).Run());
  return true;
}

}  // namespace oneflow
