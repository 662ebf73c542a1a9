// Recurrences over time: LSTM (Hochreiter and Schmidhuber, 1997) and GRU (Cho et al., 2014), as PyTorch has them. x is
// what the inputs give the gates, for all times at once; w and bias are what the state gives them.
//
//   lstm   i,f,g,o = x_t + h_{t-1} w + bias; c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);  h_t = sigmoid(o) tanh(c_t)
//   gru    r,z = sigmoid(x_t + h_{t-1} w + bias) of these;   n = tanh(x_n + r (h_{t-1} w + bias)_n)
//          h_t = (1 - z) n + z h_{t-1}
//
// A step needs the whole state before it, so that only samples are dealt out among ranks. Gradients walk back through
// the gates that the forward pass kept; those of w are a product over all samples and times.
#include <utility>

#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

constexpr RankRange kMatrix = Exactly(2), kSequence = Exactly(3);

TensorType Floats(std::vector<int64_t> sizes) { return {DType::kFloat32, Shape(std::move(sizes))}; }

// Sizes of x[b,t,gates*h].
struct Sizes {
  int64_t b, t, h;
  TensorType State() const { return Floats({b, h}); }
  TensorType Sequence(int64_t columns) const { return Floats({b, t, columns * h}); }
};

absl::StatusOr<Sizes> SizesOf(const TensorType& x, int64_t gates) {
  if (x.shape[1] < 1 || x.shape[2] % gates != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("x is ", x.ToString(), " but must have a step, and columns for ", gates, " gates of each unit"));
  }
  return Sizes{x.shape[0], x.shape[1], x.shape[2] / gates};
}

// Checks x, w, bias and `states` initial states.
absl::StatusOr<Sizes> CheckForward(const InferContext& c, int64_t gates, int states) {
  std::vector<Operand> operands = {
      {"x", kFloat32, kSequence}, {"w", kFloat32, kMatrix}, {"bias", kFloat32, Exactly(1)}};
  const char* const names[] = {"h0", "c0"};
  for (int i = 0; i < states; ++i) operands.push_back({names[i], kFloat32, kMatrix});
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  OF_ASSIGN_OR_RETURN(const Sizes s, SizesOf(c.inputs[0], gates));
  const std::string because = absl::StrCat("x, which is ", c.inputs[0].ToString(), ",");
  OF_RETURN_IF_ERROR(CheckType("w", c.inputs[1], Floats({s.h, gates * s.h}), because));
  OF_RETURN_IF_ERROR(CheckType("bias", c.inputs[2], Floats({gates * s.h}), because));
  for (int i = 0; i < states; ++i) OF_RETURN_IF_ERROR(CheckType(names[i], c.inputs[3 + i], s.State(), because));
  return s;
}

absl::StatusOr<Types> InferLstm(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(const Sizes s, CheckForward(c, 4, 2));
  return Outputs({s.Sequence(1), s.Sequence(1), s.Sequence(4)});
}

absl::StatusOr<Types> InferGru(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(const Sizes s, CheckForward(c, 3, 1));
  return Outputs({s.Sequence(1), s.Sequence(4)});
}

// Operands of a gradient, whose sizes follow from `gates`[b,t,4h].
absl::StatusOr<Sizes> CheckBackward(const InferContext& c, absl::Span<const Operand> operands, int of_gates,
                                    int64_t gates) {
  OF_RETURN_IF_ERROR(CheckOperands(c, operands));
  OF_ASSIGN_OR_RETURN(const Sizes s, SizesOf(c.inputs[of_gates], 4));
  const std::string because = absl::StrCat("gates, which is ", c.inputs[of_gates].ToString(), ",");
  for (size_t i = 0; i < operands.size(); ++i) {
    if (static_cast<int>(i) == of_gates) continue;
    const bool is_weight = operands[i].name == "w";
    const TensorType expected = is_weight                             ? Floats({s.h, gates * s.h})
                                : operands[i].rank.min == kMatrix.min ? s.State()
                                                                      : s.Sequence(1);
    OF_RETURN_IF_ERROR(CheckType(operands[i].name, c.inputs[i], expected, because));
  }
  return s;
}

absl::StatusOr<Types> InferLstmGrad(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(const Sizes s, CheckBackward(c,
                                                   {{"dy", kFloat32, kSequence},
                                                    {"dcells", kFloat32, kSequence},
                                                    {"gates", kFloat32, kSequence},
                                                    {"cells", kFloat32, kSequence},
                                                    {"w", kFloat32, kMatrix},
                                                    {"c0", kFloat32, kMatrix}},
                                                   2, 4));
  return Outputs({s.Sequence(4), s.State(), s.State()});
}

absl::StatusOr<Types> InferGruGrad(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(const Sizes s, CheckBackward(c,
                                                   {{"dy", kFloat32, kSequence},
                                                    {"gates", kFloat32, kSequence},
                                                    {"y", kFloat32, kSequence},
                                                    {"w", kFloat32, kMatrix},
                                                    {"h0", kFloat32, kMatrix}},
                                                   1, 3));
  return Outputs({s.Sequence(3), s.Sequence(3), s.State()});
}

// The gradient of w and of bias, from that of what they give the gates: the states before each step are a's rows.
void SetWeightGrads(GradContext& c, const Tensor& da) {
  c.SetInputGrad(2, c.Call1("bias_grad", {da}));
  if (!c.needs_grad(1)) return;
  const Tensor y = c.output(0), h0 = c.input(3);
  const int64_t b = y.shape()[0], t = y.shape()[1], h = y.shape()[2];
  Tensor before = c.Call1("reshape", {h0}, {{"shape", std::vector<int64_t>{b, 1, h}}});
  if (t > 1) {
    const Tensor earlier = c.Call1("slice", {y}, {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"size", t - 1}});
    before = c.Call1("concat", {before, earlier}, {{"axis", int64_t{1}}});
  }
  c.SetInputGrad(1, c.Call1("matmul_wgrad", {before, da}));
}

absl::Status LstmGrad(GradContext& c) {
  if (c.arrived_grad(2).has_value()) return absl::UnimplementedError("no gradient flows through the gates of an lstm");
  const Tensor dy = c.output_grad_or_zeros(0), dcells = c.output_grad_or_zeros(1);
  const std::vector<Tensor> grads = c.Call("lstm_grad", {dy, dcells, c.output(2), c.output(1), c.input(1), c.input(4)});
  c.SetInputGrad(0, grads[0]);
  SetWeightGrads(c, grads[0]);
  c.SetInputGrad(3, grads[1]);
  c.SetInputGrad(4, grads[2]);
  return absl::OkStatus();
}

absl::Status GruGrad(GradContext& c) {
  if (c.arrived_grad(1).has_value()) return absl::UnimplementedError("no gradient flows through the gates of a gru");
  const std::vector<Tensor> grads =
      c.Call("gru_grad", {*c.output_grad(0), c.output(1), c.output(0), c.input(1), c.input(3)});
  c.SetInputGrad(0, grads[0]);
  SetWeightGrads(c, grads[1]);
  c.SetInputGrad(3, grads[2]);
  return absl::OkStatus();
}

// An op with w as input `weight`. Its work is the product of the states with w at all times, or that of the gradients.
void Add(OpRegistry& registry, const char* name, const char* rule, absl::StatusOr<Types> (*infer)(const InferContext&),
         absl::Status (*grad)(GradContext&), int weight) {
  OpDef op = {.name = name, .rule = rule, .infer = infer, .grad = grad};
  op.flops = [weight](absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
    const Shape &sequence = inputs[0].shape, &w = inputs[weight].shape;
    return 2.0 * static_cast<double>(sequence[0] * sequence[1]) * static_cast<double>(w.count());
  };
  registry.Add(std::move(op));
}

}  // namespace

void AddRecurrenceOps(OpRegistry& registry) {
  Add(registry, "lstm", "btg,hg,g,bh,bh->bth,bth,btg; whole t g h", InferLstm, LstmGrad, 1);
  Add(registry, "lstm_grad", "bth,bth,btg,bth,hg,bh->btg,bh,bh; whole t g h; linear 0 1", InferLstmGrad, nullptr, 4);
  Add(registry, "gru", "btg,hg,g,bh->bth,btq; whole t g h q", InferGru, GruGrad, 1);
  Add(registry, "gru_grad", "bth,btq,bth,hg,bh->btg,btg,bh; whole t g h q; linear 0", InferGruGrad, nullptr, 3);
}

}  // namespace oneflow::ops
