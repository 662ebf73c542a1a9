#include "compiler/local_training.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/composed.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

// Beside a norm that may be 0.
constexpr double kTiny = 1e-12;

// A variable that every rank has of its own, and what is beside it.
struct Averaged {
  std::string name;
  TensorType type;
  AttrMap attrs;
  SbpHint hint;  // how w lies: whole along the axis, along others as w/local does
  bool is_learned = false;
};

class Exchange {
 public:
  Exchange(const Graph& trained, const CompileOptions& options, const OpRegistry& ops, const VariableDists& variables,
           std::string axis)
      : options_(*options.local_training), ops_(ops), groups_(options.mesh.AxisSize(axis)), axis_(std::move(axis)) {
    for (NodeId id = 0; id < trained.num_nodes(); ++id) {
      const Node& node = trained.node(id);
      const auto local = variables.find(absl::StrCat(node.name, kLocalSuffix));
      if (!ops.Is(node.op, OpKind::kVariable) || local == variables.end()) continue;
      Averaged one{node.name, trained.value(node.outputs[0]).type, node.attrs, {}, false};
      one.is_learned = IsLearned(RoleOfVariable(node.attrs));
      const DistType& dist = local->second;
      for (size_t a = 0; a < dist.sbp.size(); ++a) {
        one.hint.push_back({dist.placement.axes()[a].name, dist.sbp[a].is_mean() ? Sbp::Broadcast() : dist.sbp[a]});
      }
      all_.push_back(std::move(one));
    }
  }

  absl::StatusOr<Program> Graphs() const {
    for (const Averaged& one : all_) {
      if (one.type.dtype == DType::kFloat32) continue;
      return absl::InvalidArgumentError(absl::StrCat("variable '", one.name, "' is ", one.type.ToString(),
                                                     ": only f32 can be averaged over ranks that train by themselves"));
    }
    Program program;
    const auto add = [&](const char* name, void (Exchange::*fill)(GraphEditor&) const) -> absl::Status {
      GraphEditor builder(ops_, Graph(name));
      (this->*fill)(builder);
      OF_ASSIGN_OR_RETURN(program.emplace_back(), builder.Finish());
      return absl::OkStatus();
    };
    OF_RETURN_IF_ERROR(add(kBeginPlan, &Exchange::Begin));
    OF_RETURN_IF_ERROR(add(kAdoptPlan, &Exchange::Adopt));
    OF_RETURN_IF_ERROR(add(kOuterPlan, &Exchange::Outer));
    OF_RETURN_IF_ERROR(add(kFinishPlan, &Exchange::Finish));
    return program;
  }

 private:
  static Tensor State(GraphEditor& b, const Averaged& of, absl::string_view suffix, SbpHint hint = {}) {
    return b.Variable(absl::StrCat(of.name, suffix), of.type, "zeros", std::move(hint), /*trainable=*/false);
  }
  static Tensor Local(GraphEditor& b, const Averaged& of) { return State(b, of, kLocalSuffix); }
  static Tensor Snapshot(GraphEditor& b, const Averaged& of) { return State(b, of, "/snapshot"); }
  static Tensor Previous(GraphEditor& b, const Averaged& of) { return State(b, of, "/previous", of.hint); }
  // As other graphs declare it.
  static Tensor Published(GraphEditor& b, const Averaged& of) {
    const Tensor w = State(b, of, "", of.hint);
    if (w.valid()) b.mutable_graph().node(b.graph().value(w.id()).producer).attrs = of.attrs;
    return w;
  }
  static void Assign(GraphEditor& b, const Tensor& variable, const Tensor& value) { b.Op("assign", {variable, value}); }

  void Begin(GraphEditor& b) const {
    for (const Averaged& one : all_) {
      const Tensor w = Published(b, one);
      Assign(b, Local(b, one), w);
      if (options_.late && one.is_learned) Assign(b, Previous(b, one), w);
    }
  }

  void Adopt(GraphEditor& b) const {
    for (const Averaged& one : all_) {
      const Tensor local = Local(b, one);
      if (options_.late) Assign(b, Snapshot(b, one), local);
      if (one.is_learned || !options_.late) Assign(b, local, Published(b, one));
    }
  }

  void Finish(GraphEditor& b) const {
    for (const Averaged& one : all_) Assign(b, Published(b, one), Mean(b, Local(b, one)));
  }

  void Outer(GraphEditor& b) const {
    std::vector<Tensor> behind;  // by weight that is learned: d
    std::vector<Tensor> moved, gone;
    for (const Averaged& one : all_) {
      const Tensor mean = Mean(b, options_.late ? Snapshot(b, one) : Local(b, one));
      if (!one.is_learned || IsMean()) {
        Assign(b, Published(b, one), mean);
        continue;
      }
      const Tensor w = Published(b, one), from = options_.late ? Previous(b, one) : w;
      behind.push_back(Sub(from, mean));
      if (options_.penalty != "gap") continue;
      moved.push_back(b.Op1("square_sum", {Sub(w, from)}));
      gone.push_back(b.Op1("square_sum", {behind.back()}));
    }
    if (behind.empty()) return;
    Tensor lambda;  // the inverse of Lambda
    if (options_.penalty == "gap") {
      const Tensor ratio = Div(Sqrt(b.Op1("add_n", moved)), AddScalar(Sqrt(b.Op1("add_n", gone)), kTiny));
      lambda = b.Op1("reciprocal", {AddScalar(ratio, 1)});
    }
    size_t next = 0;
    for (const Averaged& one : all_) {
      if (one.is_learned) Step(b, one, behind[next++], lambda);
    }
  }

  Tensor Mean(GraphEditor& b, const Tensor& own) const { return MeanOfOwn(b, own, axis_, groups_); }

  // Without rounding twice.
  bool IsMean() const {
    return options_.rate == 1 && options_.momentum == 0 && options_.clip == 0 && options_.penalty == "none" &&
           !options_.late;
  }

  void Step(GraphEditor& b, const Averaged& one, Tensor d, const Tensor& lambda) const {
    if (lambda.valid()) d = Mul(d, lambda);
    if (options_.penalty == "const" && options_.divisor != 1) d = Scale(d, 1 / options_.divisor);
    Tensor step = d;
    if (options_.momentum != 0) {
      const Tensor m = State(b, one, "/outer_momentum"), kept = Add(Scale(m, options_.momentum), d);
      Assign(b, m, kept);
      step = options_.nesterov ? Add(d, Scale(kept, options_.momentum)) : kept;
    }
    if (options_.clip > 0) step = Clip(step, -options_.clip, options_.clip);
    const Tensor w = Published(b, one);
    if (options_.late) Assign(b, Previous(b, one), w);
    Assign(b, w, Sub(w, options_.rate == 1 ? step : Scale(step, options_.rate)));
  }

  const LocalTrainingOptions& options_;
  const OpRegistry& ops_;
  const int64_t groups_;
  const std::string axis_;
  std::vector<Averaged> all_;
};

}  // namespace

absl::StatusOr<OwnAxis> OwnAxisOf(const CompileOptions& options, const Graph& graph) {
  if (!options.local_training.has_value()) return OwnAxis{};
  OF_ASSIGN_OR_RETURN(const std::string axis,
                      FindAxis(options.MeshOf(graph.name()).mesh(), options.local_training->axis, "sync.axis"));
  return OwnAxis{axis, graph.is_trained()};
}

Tensor MeanOfOwn(GraphEditor& editor, const Tensor& x, const std::string& axis, int64_t groups) {
  const Tensor sum = ReduceSum(editor.Op1("addends", {x}, {{"count", groups}}), {0});
  // Or small rows would be moved whole.
  if (sum.valid()) editor.mutable_graph().value(sum.id()).hint = {{axis, Sbp::Partial()}};
  return Scale(sum, 1.0 / static_cast<double>(groups));
}

absl::StatusOr<Program> ExchangeGraphs(const Graph& trained, const CompileOptions& options, const OpRegistry& ops,
                                       const VariableDists& variables) {
  const std::string& penalty = options.local_training->penalty;
  if (penalty != "none" && penalty != "const" && penalty != "gap") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no penalty '", penalty, "' of what is late; there are none, const, gap"));
  }
  OF_ASSIGN_OR_RETURN(const OwnAxis own, OwnAxisOf(options, trained));
  return Exchange(trained, options, ops, variables, own.name).Graphs();
}

}  // namespace oneflow
