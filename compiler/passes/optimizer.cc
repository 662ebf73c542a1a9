// The update. One global gradient norm is measured (and clipped on request), one learning rate is computed from the
// step counter, and every variable that is trained gets update nodes and its own state variables, by the rule, rate and
// decay of its group (compiler/parameter_groups.h):
//
//   "<w>/adam_m", ...: the rule's states                zeros (oneflow_core/optimizer_rules.h)
//   "<w>/average"                                       its moving average, if the job has it
//   "optimizer/step"                                    i64, counts the steps taken
//   "optimizer/loss_scale", "optimizer/good_steps"      of a scaled loss (loss_scale.h)
//
// A model with a variable of such a name is refused.
//
// Only matrices and larger tensors are decayed, because decaying biases and gains of norms is known to hurt; unless
// their group says how much.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/parameter_groups.h"
#include "compiler/passes/learning_rate.h"
#include "compiler/passes/loss_scale.h"
#include "compiler/passes/passes.h"
#include "compiler/points.h"
#include "oneflow_core/attr_text.h"
#include "oneflow_core/graph_editor.h"
#include "oneflow_core/optimizer_rules.h"
#include "oneflow_core/optimizer_step.h"

namespace oneflow {
namespace {

class OptimizerBuilder {
 public:
  OptimizerBuilder(const OpRegistry& ops, Graph graph, const CompileOptions& options)
      : builder_(ops, std::move(graph)), options_(options) {
    ForNone();
  }

  absl::StatusOr<Graph> Run() {
    FindUserVariables();
    OF_RETURN_IF_ERROR(FindParameters());
    Step();
    Norm();
    if (builder_.status().ok()) OF_RETURN_IF_ERROR(CheckPoints());
    for (const Parameter& parameter : parameters_) {
      For(parameter);
      if (options_.keep_gradients && kind_ == StepKind::kStep) Keep(parameter);
      Update(parameter);
      if (kind_ == StepKind::kStep) Average(parameter);
    }
    if (kind_ == StepKind::kStep) CountStep();
    OF_ASSIGN_OR_RETURN(Graph graph, builder_.Finish());
    ReadPoints(graph);
    return graph;
  }

 private:
  struct Parameter {
    NodeId variable;
    std::string name, source;
    PlacementHint at;
    SbpHint hint;
    Tensor value, gradient;
    const UpdateOptions* update;
    const OptimizerRule* rule;
    bool by_others = false;  // updated by `others` of the rule that its options name
  };

  // New nodes serve `parameter`, or no variable in particular.
  void For(const Parameter& parameter) {
    builder_.set_role(Role::kUpdate, -1, parameter.variable);
    builder_.set_source(parameter.source);
    builder_.set_placement_hint(parameter.at);
  }
  void ForNone() {
    builder_.set_role(Role::kUpdate);
    builder_.set_source("");
    builder_.set_placement_hint({});
  }

  std::vector<Tensor> Op(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs,
                         const std::string& name) {
    return builder_.Op(op, inputs, std::move(attrs), std::source_location::current(), name);
  }

  static absl::StatusOr<const OptimizerRule*> Rule(const std::string& name) {
    const OptimizerRule* const rule = FindOptimizerRule(name);
    if (rule != nullptr) return rule;
    return absl::InvalidArgumentError(absl::StrCat("there is no optimizer '", name, "'"));
  }

  // Whether a rule for matrices inside the network is for this variable: any matrix, where its group asks for the rule.
  bool IsFor(const Node& variable, NodeId id) const {
    if (builder_.graph().value(variable.outputs[0]).type.shape.rank() != 2) return false;
    return UpdateOf(options_.optimizer, variable.name).is_own_rule || hidden_[id];
  }

  // InvalidArgument if there is no such rule, or a group asks for one that its variables cannot have.
  absl::Status FindParameters() {
    const Graph& graph = builder_.graph();
    const std::vector<ValueId> gradients = VariableGradients(graph);
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (!builder_.ops().Is(node.op, OpKind::kVariable) || !node.attrs.Bool("trainable")) continue;
      if (gradients[id] < 0) continue;  // it is frozen, or no loss depends on it
      const UpdateOptions& update = UpdateOf(options_.optimizer, node.name);
      OF_ASSIGN_OR_RETURN(const OptimizerRule* rule, Rule(update.rule));
      const bool others = !rule->others.empty() && !IsFor(node, id);
      if (others && update.is_own_rule) {
        return absl::InvalidArgumentError(absl::StrCat(Where(node), ": is ",
                                                       graph.value(node.outputs[0]).type.ToString(), ", but '",
                                                       rule->name, "' updates matrices alone"));
      }
      if (others) {
        OF_ASSIGN_OR_RETURN(rule, Rule(rule->others));
      }
      parameters_.push_back({id, node.name, node.source, node.at, graph.value(node.outputs[0]).hint,
                             Tensor(&builder_, node.outputs[0]), Tensor(&builder_, gradients[id]), &update, rule,
                             others});
    }
    for (Parameter& parameter : parameters_) Widen(parameter);
    return absl::OkStatus();
  }

  // A user's variable must not have a name of the optimizer: it would become optimizer state in training and in
  // checkpoints.
  void FindUserVariables() {
    const Graph& graph = builder_.graph();
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (builder_.ops().Is(node.op, OpKind::kVariable) && IsForward(node)) users_.emplace(node.name, Where(node));
    }
    for (const char* name : {kLossScale, kGoodSteps}) {
      if (scales_loss_) CheckIsNew(name, "the scaled loss");
    }
  }
  void CheckIsNew(const std::string& name, absl::string_view of) {
    const auto users = users_.find(name);
    if (users == users_.end()) return;
    builder_.Fail(absl::InvalidArgumentError(absl::StrCat(
        users->second, ": the name '", name, "' is that of the optimizer's state of ", of, "; rename the variable")));
  }
  Tensor NewVariable(const std::string& name, const TensorType& type, SbpHint hint, absl::string_view of) {
    CheckIsNew(name, of);
    return builder_.Variable(name, type, "zeros", std::move(hint), /*trainable=*/false);
  }

  // Updates compute in the type of the masters; the gradient travels in the type in which it was made.
  void Widen(Parameter& parameter) {
    const DType master = parameter.value.type().dtype;
    if (parameter.gradient.type().dtype == master) return;
    const Graph& graph = builder_.graph();
    const std::string made_by = graph.node(graph.value(parameter.gradient.id()).producer).name;
    For(parameter);
    parameter.gradient =
        Op("cast", {parameter.gradient}, {{"dtype", Name(master)}}, absl::StrCat(made_by, "/", Name(master)))[0];
    ForNone();
  }

  void Step() {
    CheckIsNew(kStepsTaken, "all variables");
    step_ = StepsTaken(builder_);
    learning_rate_ = LearningRate(builder_, options_.schedule);
  }

  void Fetches() {
    Fetch(learning_rate_, "lr");
    Fetch(norm_, "grad_norm");
    if (!scales_loss_) return;
    Fetch(LossScale(builder_, options_.precision), "loss_scale");
    Fetch(skipped_, "skipped");
  }
  void Fetch(const Tensor& x, const std::string& name) {
    Op("fetch", {x}, {{"name", name}}, absl::StrCat("optimizer/", name, "/fetch"));
  }

  // The square of the global norm is the sum of the gradients' squares, in any parts. Variables with the same wish are
  // summed first: they will lie alike, so only the few sums have to be brought together and not every addend.
  void Norm() {
    std::map<std::string, std::vector<Tensor>> groups;
    for (const Parameter& parameter : parameters_) {
      For(parameter);
      groups[ToString(parameter.hint)].push_back(
          Op("square_sum", {parameter.gradient}, {}, absl::StrCat(parameter.name, "/grad/square_sum"))[0]);
    }
    ForNone();
    std::vector<Tensor> sums;
    for (const auto& [hint, squares] : groups) sums.push_back(Sum(squares));
    Tensor squares = Sum(sums);
    Unscaled unscaled;
    if (scales_loss_) {
      unscaled = Unscale(builder_, squares, options_.precision);
      squares = unscaled.squares;
    }
    std::vector<Tensor> clip =
        Op("clip_scale", {squares}, {{"max_norm", options_.optimizer.clip_norm}}, "optimizer/clip");
    clip.resize(2);
    scale_ = scales_loss_              ? Op("mul", {clip[0], unscaled.scale}, {}, "optimizer/scale")[0]
             : UpdatesDuringBackward() ? One()
                                       : clip[0];
    norm_ = clip[1];
    skipped_ = unscaled.skipped;
  }

  // Where gradients are used as they are, and what an update needs comes from below the device's memory: an update that
  // waited for the norm would keep all gradients, and load and store behind backward instead of beside it. (Else all
  // updates together are a few launches.)
  bool UpdatesDuringBackward() const {
    const auto in_tier = [&](OffloadOptions::What what) { return OffloadOf(options_, what) != nullptr; };
    return options_.optimizer.clip_norm == 0 &&
           (in_tier(OffloadOptions::What::kOptimizer) || in_tier(OffloadOptions::What::kWeights) ||
            in_tier(OffloadOptions::What::kGradients));
  }
  Tensor One() {
    return Op("constant", {},
              {{"dtype", std::string(Name(DType::kFloat32))}, {"shape", std::vector<int64_t>()}, {"value", 1.0}},
              "optimizer/one")[0];
  }

  Tensor Sum(const std::vector<Tensor>& addends) {
    return addends.size() == 1 ? addends[0] : Op("add_n", addends, {}, "optimizer/square_sum")[0];
  }

  // A variable beside the parameter, of its shape and with its wishes. A dimension of size 1 is not split.
  Tensor State(const Parameter& parameter, absl::string_view suffix, const Shape& shape) {
    SbpHint hint = parameter.hint;
    for (AxisSbp& on : hint) {
      if (on.sbp.is_split() && shape[on.sbp.dim()] != parameter.value.shape()[on.sbp.dim()]) on.sbp = Sbp::Broadcast();
    }
    const Tensor state = NewVariable(absl::StrCat(parameter.name, suffix), {parameter.value.type().dtype, shape},
                                     std::move(hint), absl::StrCat("variable '", parameter.name, "'"));
    const TierKind* const tier = TierFor(options_, OffloadOptions::What::kOptimizer, state.type());
    return tier == nullptr ? state : state.KeptIn(tier->name);
  }
  Tensor State(const Parameter& parameter, absl::string_view suffix) {
    return State(parameter, suffix, parameter.value.shape());
  }

  void Keep(const Parameter& parameter) {
    const Tensor kept = State(parameter, ".grad");
    Tensor gradient = parameter.gradient;
    if (scales_loss_) {
      const Tensor loss_scale = LossScale(builder_, options_.precision);
      gradient = Op("div", {gradient, loss_scale}, {}, absl::StrCat(parameter.name, "/grad/unscaled"))[0];
    }
    Op("assign", {kept, gradient}, {}, absl::StrCat(parameter.name, "/grad/keep"));
  }

  static double Decay(const Parameter& parameter) {
    const UpdateOptions& update = *parameter.update;
    return update.decays_vectors || parameter.value.shape().rank() >= 2 ? update.weight_decay : 0.0;
  }

  // The learning rate times `factor`, made once.
  Tensor Rate(double factor) {
    if (factor == 1) return learning_rate_;
    const auto [at, is_new] = rates_.try_emplace(factor);
    if (is_new) {
      ForNone();
      at->second = Op("scale", {learning_rate_}, {{"alpha", factor}}, "optimizer/lr/scaled")[0];
    }
    return at->second;
  }

  // It reads the weight before the step overwrites it.
  void Average(const Parameter& parameter) {
    if (!options_.average.decay.has_value()) return;
    For(parameter);
    const Tensor average = State(parameter, absl::StrCat("/", kAverageSuffix));
    Op("average_update", {average, parameter.value, step_, scale_}, {{"decay", *options_.average.decay}},
       absl::StrCat(parameter.name, "/average/update"));
  }

  // The attributes of the update: the group's, and the rule's defaults.
  static AttrMap Attributes(const Parameter& parameter) {
    AttrMap attrs;
    if (!parameter.by_others) attrs = parameter.update->attributes;
    for (const OptimizerAttribute& attribute : parameter.rule->attributes) {
      if (attrs.Has(attribute.name)) continue;
      attrs.Set(attribute.name, attribute.is_flag ? Attr(attribute.value != 0) : Attr(attribute.value));
    }
    attrs.Set("weight_decay", Decay(parameter));
    return attrs;
  }

  void Update(const Parameter& parameter) {
    const Tensor rate = Rate(parameter.update->rate);
    For(parameter);
    if (!builder_.status().ok()) return;
    const OptimizerRule& rule = *parameter.rule;
    switch (kind_) {
      case StepKind::kHalf:
        return rule.half == nullptr ? void() : UpdateByOps(parameter, rate, rule.half);
      case StepKind::kAnchor:
        return rule.anchor == nullptr ? void() : UpdateByOps(parameter, rate, rule.anchor);
      case StepKind::kStep:
        return rule.build == nullptr ? UpdateByOp(parameter, rate) : UpdateByOps(parameter, rate, rule.build);
    }
  }

  // The step is over, and is told of.
  void CountStep() {
    ForNone();
    std::vector<Tensor> counted = {step_};
    if (scales_loss_) counted.push_back(scale_);
    Op("increment", counted, {}, "optimizer/step/increment");
    if (scales_loss_) UpdateLossScale(builder_, scale_, options_.precision);
    Fetches();
  }

  // What the parameter's update takes: a player who wants the loss to be large has it the other way round.
  Tensor Gradient(const Parameter& parameter) {
    if (!parameter.update->ascent) return parameter.gradient;
    return Op("scale", {parameter.gradient}, {{"alpha", -1.0}}, absl::StrCat(parameter.name, "/grad/ascent"))[0];
  }

  void UpdateByOp(const Parameter& parameter, const Tensor& rate) {
    const OptimizerRule& rule = *parameter.rule;
    std::vector<Tensor> operands = {parameter.value};
    for (const OptimizerState& state : rule.states) {
      operands.push_back(State(parameter, absl::StrCat("/", state.suffix)));
    }
    operands.insert(operands.end(), {Gradient(parameter), rate, scale_});
    if (rule.reads_step) operands.push_back(step_);
    Op(absl::StrCat(rule.name, "_update"), operands, Attributes(parameter), absl::StrCat(parameter.name, "/update"));
  }

  void UpdateByOps(const Parameter& parameter, const Tensor& rate, void (*build)(OptimizerStep&)) {
    OptimizerStep::Operands operands = {parameter.value, Gradient(parameter), rate, scale_, {}};
    for (const OptimizerState& state : parameter.rule->states) {
      const Shape& weight = parameter.value.shape();
      const std::optional<Shape> shape = state.shape == nullptr ? weight : state.shape(weight);
      if (!shape.has_value()) continue;
      operands.states[state.operand] = State(parameter, absl::StrCat("/", state.suffix), *shape);
    }
    if (!builder_.status().ok()) return;
    const AttrMap attrs = Attributes(parameter);
    const OptimizerStep::StepNumber step_number = [&](const std::string& op, const AttrMap& of_op) {
      return StepNumber(parameter, op, of_op);
    };
    {
      const GraphBuilder::Scope scope(builder_, absl::StrCat(parameter.name, "/update"));
      OptimizerStep step(builder_, operands, attrs, step_number);
      build(step);
    }
    const auto point = kind_ == StepKind::kStep   ? parameter.rule->point
                       : kind_ == StepKind::kHalf ? parameter.rule->half_point
                                                  : nullptr;
    if (point != nullptr) Point(parameter, operands, attrs, step_number, point);
  }

  // What the model computes with instead of the weight, which lies as the weight does.
  void Point(const Parameter& parameter, OptimizerStep::Operands operands, const AttrMap& attrs,
             const OptimizerStep::StepNumber& step_number, Tensor (*point)(const OptimizerStep&)) {
    operands.gradient = Tensor();
    builder_.Imitate(Node(builder_.graph().node(parameter.variable)));
    const NodeId first = builder_.graph().num_nodes();
    const GraphBuilder::Scope scope(builder_, absl::StrCat(parameter.name, "/point"));
    const Tensor at = point(OptimizerStep(builder_, operands, attrs, step_number));
    if (!at.valid()) return;
    Value& value = builder_.mutable_graph().value(at.id());
    const Node& maker = builder_.graph().node(value.producer);
    if (!builder_.ops().Is(maker.op, OpKind::kVariable)) value.hint = parameter.hint;
    points_.push_back({parameter.value.id(), at.id(), first, builder_.graph().num_nodes()});
  }

  // Forward and backward read points.
  void ReadPoints(Graph& graph) const {
    std::vector<ValueId> at(graph.num_values(), -1);
    std::vector<bool> makes_point(graph.num_nodes(), false);
    for (const PointOf& point : points_) {
      at[point.weight] = point.at;
      std::fill(makes_point.begin() + point.first_node, makes_point.begin() + point.end_node, true);
    }
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (makes_point[id] || PartOf(graph.node(id).role) == StepPart::kUpdate) continue;
      for (ValueId& input : graph.node(id).inputs) {
        if (at[input] >= 0) input = at[input];
      }
    }
    for (const PointOf& point : points_) {
      const NodeId maker = graph.value(point.at).producer;
      if (builder_.ops().Is(graph.node(maker).op, OpKind::kVariable)) TakePlace(graph, point.weight, maker);
    }
    if (!points_.empty()) graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
  }

  // The variable is what the model is of, and nobody reads the weight: what served that serves the variable.
  static void TakePlace(Graph& graph, ValueId weight, NodeId variable) {
    const NodeId from = graph.value(weight).producer;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      Node& node = graph.node(id);
      if (node.variable == from) node.variable = variable;
    }
    Node& node = graph.node(variable);
    node.role = Role::kForward;
    node.variable = -1;
  }

  // Anchors move by one coin, and a step that is skipped would leave a point behind.
  absl::Status CheckPoints() const {
    const UpdateOptions* const anchored = AnchoredUpdate(options_.optimizer);
    if (anchored == nullptr && !GoesHalfAhead(options_.optimizer)) return absl::OkStatus();
    if (!scales_loss_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", anchored == nullptr ? "extragradient" : anchored->rule,
                     "' takes gradients at other points than the weights: not with a scaled loss (precision.compute "
                     "F16), whose steps are skipped now and then"));
  }

  // Made once for all parameters; new nodes then serve `parameter` again.
  Tensor StepNumber(const Parameter& parameter, const std::string& op, const AttrMap& attrs) {
    const auto [at, is_new] = step_numbers_.try_emplace(absl::StrCat(op, AttrsToText(attrs)));
    if (is_new) {
      ForNone();
      at->second = builder_.Op1(op, {step_}, attrs);
      For(parameter);
    }
    return at->second;
  }

  struct PointOf {
    ValueId weight, at;
    NodeId first_node, end_node;  // that make it
  };

  GraphEditor builder_;
  const CompileOptions& options_;
  const StepKind kind_ = StepKindOf(builder_.graph());
  const bool scales_loss_ = ScalesLoss(builder_.graph());
  const std::vector<bool> hidden_ = HiddenMatrices(builder_.graph(), builder_.ops());
  std::map<std::string, std::string> users_;  // variables of the model: where each is, by name
  std::vector<Parameter> parameters_;
  std::vector<PointOf> points_;
  std::map<double, Tensor> rates_;              // by factor of the learning rate
  std::map<std::string, Tensor> step_numbers_;  // by op and attributes
  Tensor step_, learning_rate_, scale_, norm_, skipped_;
};

}  // namespace

absl::StatusOr<bool> AddOptimizer(Graph& graph, PassContext& context) {
  if (!graph.is_trained()) return false;
  OF_ASSIGN_OR_RETURN(graph, OptimizerBuilder(context.ops, std::move(graph), context.options).Run());
  return true;
}

}  // namespace oneflow
