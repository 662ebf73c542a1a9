#include "oneflow_core/fusions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "oneflow_core/line_reader.h"
#include "oneflow_core/packed.h"

namespace oneflow {
namespace {

constexpr DeviceKind kCpu = DeviceKind::kCpu, kCuda = DeviceKind::kCuda;

// The three products of a head read one weight, so their flags follow from one another.
absl::Status GradientsOfOneProduct(const InferContext& c) {
  const bool transposed = c.attrs.Bool("transpose_b"), of_dx = c.attrs.Bool("dx_transpose_b"),
             of_dw = c.attrs.Bool("dw_transpose");
  if (of_dx != transposed && of_dw == transposed) return absl::OkStatus();
  const auto text = [](bool x) { return x ? "true" : "false"; };
  return absl::InvalidArgumentError(absl::StrCat(
      "attribute 'transpose_b' is ", text(transposed), ", so that 'dx_transpose_b' must be ", text(!transposed),
      " and 'dw_transpose' ", text(transposed), ", but they are ", text(of_dx), " and ", text(of_dw)));
}

absl::Status WtIsW(const InferContext& c) {
  const Shape &w = c.inputs[1].shape, &wt = c.inputs[2].shape;
  const int64_t k = kPairedRows * w[1], n = kPanelColumns * w[0];
  if (HasWholePanels(n, k) && wt == PackedShape(n, k)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("wt is ", c.inputs[2].ToString(), ", but is to be w, which is ",
                                                 c.inputs[1].ToString(), ", transposed"));
}

absl::Status IsF32(const InferContext& c) {
  if (c.inputs[0].dtype == DType::kFloat32) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a is ", c.inputs[0].ToString(), " but must be f32"));
}

absl::Status AreFloating(const InferContext& c) {
  for (const TensorType& type : c.inputs) {
    if (!IsFloating(type.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(type.ToString(), " must be floating"));
    }
  }
  return absl::OkStatus();
}

// A sum over micro-batches is added to in memory, so it is whole.
absl::Status IsDense(const InferContext& c) {
  for (const TensorType& type : c.inputs) {
    if (type.is_ragged()) return absl::InvalidArgumentError(absl::StrCat(type.ToString(), " must not be ragged"));
  }
  return absl::OkStatus();
}

// The cost of an op whose kernel only moves numbers between memory and registers is the memory that it reads and
// writes.
constexpr FusionRow kRows[] = {
    {.parts = "m = reduce_max{axes=[last], keepdims=false}(x); s, z = softmax_sums{}(x, labels, m); "
              "loss, lse = softmax_loss(m, s, z)",
     .whole = "loss, lse = softmax_cross_entropy(x, labels)",
     .saves = "x is read once, not three times",
     .composite = true},
    {.parts = "m = reduce_max{axes=[last], keepdims=false}(x); s = exp_sum{}(x, m); y = softmax_apply(x, m, s)",
     .whole = "y = softmax(x)",
     .saves = "x is read once, not three times",
     .composite = true},
    {.parts = "d = row_dot{}(dy, y); dx = softmax_grad_apply(dy, y, d)",
     .whole = "dx = softmax_grad(dy, y)",
     .saves = "dy and y are read once, not twice",
     .composite = true},
    {.parts = "m = reduce_max{axes=[last], keepdims=false}(x); i = first_index{}(x, m); "
              "correct = same_index(i, labels)",
     .whole = "correct = top1_correct(x, labels)",
     .saves = "x is read once, not twice",
     .composite = true},

    {.parts = "mean = channel_mean(x); var = channel_variance(x, mean)",
     .whole = "mean, var = channel_statistics(x)",
     .saves = "x is read once, not twice",
     .blocks = true},
    {.parts = "h = batch_norm(x, gamma, beta, mean, var); s = add(h, r); y = relu(s)",
     .whole = "y = batch_norm_add_relu(x, gamma, beta, mean, var, r)",
     .saves = "h and s are neither written nor read",
     .in_place = "x->y, r->y",
     .blocks = true},
    {.parts = "h = batch_norm(x, gamma, beta, mean, var); s = add(r, h); y = relu(s)",
     .whole = "y = batch_norm_add_relu(x, gamma, beta, mean, var, r)",
     .saves = "h and s are neither written nor read"},
    {.parts = "h = batch_norm(x, gamma, beta, mean, var); y = relu(h)",
     .whole = "y = batch_norm_relu(x, gamma, beta, mean, var)",
     .saves = "h is neither written nor read",
     .in_place = "x->y",
     .blocks = true},
    {.parts = "d = relu_grad(dy, y); dgamma, dbeta = batch_norm_sums(d, x, mean, var)",
     .given = "y = batch_norm_relu(x, gamma, beta, mean, var)",
     .whole = "dgamma, dbeta = batch_norm_relu_sums(dy, x, gamma, beta, mean, var)",
     .saves = "y is not read",
     .blocks = true},
    {.parts = "d = relu_grad(dy, y); dx = batch_norm_dx(d, x, gamma, mean, var, dgamma, dbeta)",
     .given = "y = batch_norm_relu(x, gamma, beta, mean, var)",
     .whole = "dx = batch_norm_relu_dx(dy, x, gamma, beta, mean, var, dgamma, dbeta)",
     .saves = "d is neither written nor read",
     .in_place = "dy->dx",
     .blocks = true},
    {.parts = "w = cast{dtype=a}(b); d = add_n{out_dtype=y}(w, a); dx = relu_grad(d, y)",
     .whole = "dx = add_relu_grad(a, b, y)",
     .saves = "d and w are neither written nor read",
     .in_place = "a->dx, b->dx",
     .blocks = true,
     .check = AreFloating},
    {.parts = "d = add_n{out_dtype=y}(a, b); dx = relu_grad(d, y)",
     .whole = "dx = add_relu_grad(a, b, y)",
     .saves = "d is neither written nor read",
     .check = AreFloating},
    {.parts = "x = add(a, b); y, mean, rstd = layer_norm(x, gamma, beta)",
     .whole = "x, y, mean, rstd = add_layer_norm(a, b, gamma, beta)",
     .saves = "x is not read",
     .in_place = "a->x, b->x"},
    {.parts = "x = add(a, b); y, rstd = rms_norm(x, gamma)",
     .whole = "x, y, rstd = add_rms_norm(a, b, gamma)",
     .saves = "x is not read",
     .in_place = "a->x, b->x"},
    {.parts = "dx, dgamma, dbeta = layer_norm_grad(dy, x, gamma, mean, rstd); d = add_n{out_dtype=dx}(r, dx)",
     .whole = "d, dgamma, dbeta = add_layer_norm_grad(r, dy, x, gamma, mean, rstd)",
     .saves = "dx is neither written nor read",
     .in_place = "r->d"},
    {.parts = "dx, dgamma = rms_norm_grad(dy, x, gamma, rstd); d = add_n{out_dtype=dx}(r, dx)",
     .whole = "d, dgamma = add_rms_norm_grad(r, dy, x, gamma, rstd)",
     .saves = "dx is neither written nor read",
     .in_place = "r->d"},
    // Logits are never rounded; their gradient is, to the type of x, as the operand of products that it is.
    {.parts = "z = matmul{transpose_b, out_dtype=f32}(x, w); loss, lse = softmax_cross_entropy{}(z, labels); "
              "dz = softmax_cross_entropy_grad{}(dloss, z, labels, lse); "
              "dx = matmul{transpose_b: dx_transpose_b, out_dtype}(dz, w); "
              "dw = matmul_wgrad{transpose: dw_transpose, out_dtype=f32}(x, dz)",
     .whole = "loss, dx, dw = matmul_cross_entropy_grad(x, w, labels, dloss)",
     .saves = "z and dz are never there but for a block",
     .across_roles = true,
     .check = GradientsOfOneProduct},
    {.parts = "z = matmul{transpose_b, out_dtype=f32}(x, w); loss, lse = softmax_cross_entropy{}(z, labels); "
              "g = softmax_cross_entropy_grad{}(dloss, z, labels, lse); dz = cast{dtype=x}(g); "
              "dx = matmul{transpose_b: dx_transpose_b, out_dtype}(dz, w); "
              "dw = matmul_wgrad{transpose: dw_transpose, out_dtype=f32}(x, dz)",
     .whole = "loss, dx, dw = matmul_cross_entropy_grad(x, w, labels, dloss)",
     .saves = "z, g and dz are never there but for a block",
     .across_roles = true,
     .check = GradientsOfOneProduct},
    {.parts = "z = packed_matmul{out_dtype=f32}(x, w); loss, lse = softmax_cross_entropy{}(z, labels); "
              "g = softmax_cross_entropy_grad{}(dloss, z, labels, lse); dz = cast{dtype=x}(g); "
              "dx = packed_matmul{out_dtype}(dz, wt); dw = matmul_wgrad{transpose: dw_transpose, out_dtype=f32}(x, dz)",
     .whole = "loss, dx, dw = packed_matmul_cross_entropy_grad(x, w, wt, labels, dloss)",
     .saves = "z, g and dz are never there but for a block",
     .across_roles = true,
     .only = kCpu,
     .check = WtIsW},
    {.parts = "z = matmul{transpose_b}(x, w); y = bias_add{axis=last}(z, b)",
     .whole = "y = matmul_bias(x, w, b)",
     .saves = "z is neither written nor read",
     .only = kCpu,
     .check = IsF32},
    {.parts = "z = packed_matmul{out_dtype}(x, w); h = bias_add{axis=last}(z, b); y = gelu{}(h)",
     .whole = "h, y = packed_matmul_bias_gelu(x, w, b)",
     .saves = "z is neither written nor read, and h is not read",
     .only = kCpu},
    {.parts = "z = packed_matmul{out_dtype}(x, w); y = bias_add{axis=last}(z, b)",
     .whole = "y = packed_matmul_bias(x, w, b)",
     .saves = "z is neither written nor read",
     .only = kCpu},
    {.parts = "z = packed_matmul{out_dtype=dy}(dy, w); d = gelu_grad{}(z, h); db = bias_grad{axis=last}(d)",
     .whole = "d, db = packed_matmul_gelu_bias_grad(dy, w, h)",
     .saves = "z is neither written nor read, and d is not read",
     .across_roles = true,
     .only = kCpu},
    {.parts = "x = packed_matmul{out_dtype=f32}(a, u); y = packed_matmul{out_dtype=f32}(b, v); "
              "z = packed_matmul{out_dtype=f32}(c, w); d = add_n{out_dtype}(x, y, z)",
     .whole = "d = sum_packed_matmul(a, u, b, v, c, w)",
     .saves = "x, y and z are neither written nor read",
     .only = kCpu},
    {.parts = "x = packed_matmul{out_dtype=f32}(a, u); y = packed_matmul{out_dtype=f32}(b, v); "
              "d = add_n{out_dtype}(x, y)",
     .whole = "d = sum_packed_matmul(a, u, b, v)",
     .saves = "x and y are neither written nor read",
     .only = kCpu},
    {.parts = "h = bias_add{axis=last}(x, b); y = gelu{}(h)",
     .whole = "h, y = bias_add_gelu(x, b)",
     .saves = "h is not read",
     .in_place = "x->h",
     .only = kCuda},
    {.parts = "h = bias_add{axis=last}(x, b); y = tanh{}(h)",
     .whole = "y = bias_add_tanh(x, b)",
     .saves = "h is neither written nor read",
     .in_place = "x->y"},
    {.parts = "d = gelu_grad{}(dy, h); db = bias_grad{axis=last}(d)",
     .whole = "d, db = gelu_bias_grad(dy, h)",
     .saves = "d is not read",
     .in_place = "dy->d",
     .across_roles = true,
     .only = kCuda},
    {.parts = "g = embedding_grad{rows}(dy, ids); d = add_n{out_dtype=a}(a, g)",
     .whole = "d = add_embedding_grad(a, dy, ids)",
     .saves = "g is neither written nor read, nor a but for the rows of ids",
     .in_place = "a->d",
     .full = "a",
     .across_roles = true},
    {.parts = "g = embedding_grad{rows}(dy, ids); d = add_n{out_dtype=a}(g, a)",
     .whole = "d = add_embedding_grad(a, dy, ids)",
     .saves = "g is neither written nor read, nor a but for the rows of ids",
     .across_roles = true},
    {.parts = "z = matmul{transpose_b, out_dtype=f32}(x, w); loss, lse = softmax_cross_entropy{}(z, labels)",
     .whole = "loss = matmul_cross_entropy(x, w, labels)",
     .saves = "z is never there but for a block"},
    {.parts = "z = packed_matmul{out_dtype=f32}(x, w); loss, lse = softmax_cross_entropy{}(z, labels)",
     .whole = "loss = packed_matmul_cross_entropy(x, w, labels)",
     .saves = "z is never there but for a block",
     .only = kCpu},
    {.parts = "d = matmul_wgrad{transpose, out_dtype=f32}(x, dy); s = accumulate{}(d)",
     .whole = "s = accumulate_matmul_wgrad(x, dy)",
     .saves = "d is neither written nor read",
     .of_sums = true,
     .only = kCuda,
     .check = IsDense},
};

absl::StatusOr<std::vector<std::string>> Names(LineReader& line) {
  std::vector<std::string> names;
  do {
    OF_ASSIGN_OR_RETURN(const absl::string_view name, line.Word("a value"));
    names.emplace_back(name);
  } while (line.Accept(","));
  return names;
}

// What stands behind "=".
absl::StatusOr<std::string> Fixed(LineReader& line) {
  if (line.Accept("[")) {
    if (!line.AcceptWord("last")) return line.Expected("'last'");
    OF_RETURN_IF_ERROR(line.Expect("]", "after '[last'"));
    return "[last]";
  }
  OF_ASSIGN_OR_RETURN(const absl::string_view word, line.Word("a value"));
  return std::string(word);
}

// "{}", "{a, b: c, d=false}".
absl::StatusOr<std::vector<PatternAttribute>> Attributes(LineReader& line) {
  std::vector<PatternAttribute> attributes;
  if (line.Accept("}")) return attributes;
  do {
    OF_ASSIGN_OR_RETURN(const absl::string_view word, line.Word("an attribute"));
    PatternAttribute attribute{std::string(word), std::string(word), ""};
    if (line.Accept(":")) {
      OF_ASSIGN_OR_RETURN(const absl::string_view name, line.Word("a name"));
      attribute.in_whole = std::string(name);
    } else if (line.Accept("=")) {
      attribute.in_whole.clear();
      OF_ASSIGN_OR_RETURN(attribute.fixed, Fixed(line));
    }
    attributes.push_back(std::move(attribute));
  } while (line.Accept(","));
  OF_RETURN_IF_ERROR(line.Expect("}", "after the attributes"));
  return attributes;
}

absl::StatusOr<PatternCall> ParseCall(absl::string_view text) {
  LineReader line(text);
  PatternCall call;
  OF_ASSIGN_OR_RETURN(call.outputs, Names(line));
  OF_RETURN_IF_ERROR(line.Expect("=", "after the outputs"));
  OF_ASSIGN_OR_RETURN(const absl::string_view op, line.Word("an op"));
  call.op = std::string(op);
  if (line.Accept("{")) {
    OF_ASSIGN_OR_RETURN(call.attributes, Attributes(line));
  }
  OF_RETURN_IF_ERROR(line.Expect("(", "after the op"));
  OF_ASSIGN_OR_RETURN(call.inputs, Names(line));
  OF_RETURN_IF_ERROR(line.Expect(")", "after the inputs"));
  if (!line.AtEnd()) return line.Expected("';'");
  return call;
}

// The place of `name` among `names`. REQUIRES: it is there.
int IndexOf(absl::string_view name, const std::vector<std::string>& names) {
  const auto it = std::find(names.begin(), names.end(), name);
  CHECK(it != names.end()) << "a row names '" << name << "', which its whole does not have";
  return static_cast<int>(it - names.begin());
}

// REQUIRES: the row can be parsed, which a test checks for all.
Fusion Read(const FusionRow& row) {
  const auto calls = [](absl::string_view text) {
    const absl::StatusOr<std::vector<PatternCall>> read = ParseCalls(text);
    CHECK(read.ok()) << text << ": " << read.status();
    return *read;
  };
  Fusion fusion{calls(row.parts), calls(row.given), calls(row.whole)[0], std::string(row.parts), {}, {}, &row};
  if (!row.given.empty()) absl::StrAppend(&fusion.made_of, " where ", row.given);
  for (const absl::string_view pair : absl::StrSplit(row.in_place, ", ", absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> from_to = absl::StrSplit(pair, "->");
    fusion.in_place.emplace_back(IndexOf(from_to.first, fusion.whole.inputs),
                                 IndexOf(from_to.second, fusion.whole.outputs));
  }
  for (const absl::string_view name : absl::StrSplit(row.full, ", ", absl::SkipEmpty())) {
    fusion.full.push_back(IndexOf(name, fusion.whole.inputs));
  }
  return fusion;
}

}  // namespace

absl::Span<const FusionRow> FusionRows() { return kRows; }

absl::StatusOr<std::vector<PatternCall>> ParseCalls(absl::string_view text) {
  std::vector<PatternCall> calls;
  for (const absl::string_view call : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    OF_ASSIGN_OR_RETURN_AT(calls.emplace_back(), ParseCall(call), absl::StrCat("'", call, "'"));
  }
  return calls;
}

const std::vector<Fusion>& Fusions() {
  static const auto* const fusions = [] {
    auto* const all = new std::vector<Fusion>;
    for (const FusionRow& row : kRows) all->push_back(Read(row));
    return all;
  }();
  return *fusions;
}

}  // namespace oneflow
