#include "compiler/passes/fusion_patterns.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "oneflow_core/line_reader.h"

namespace oneflow {
namespace {

constexpr DeviceKind kCpu = DeviceKind::kCpu, kCuda = DeviceKind::kCuda;

// The cost of an op whose kernel only moves numbers between memory and registers is the memory that it reads and
// writes.
constexpr FusionRow kRows[] = {
    {"mean = channel_mean(x); var = channel_variance(x, mean)", "", "mean, var = channel_statistics(x)",
     "x is read once, not twice"},
    {"h = batch_norm(x, gamma, beta, mean, var); s = add(h, r); y = relu(s)", "",
     "y = batch_norm_add_relu(x, gamma, beta, mean, var, r)", "h and s are neither written nor read"},
    {"h = batch_norm(x, gamma, beta, mean, var); s = add(r, h); y = relu(s)", "",
     "y = batch_norm_add_relu(x, gamma, beta, mean, var, r)", "h and s are neither written nor read"},
    {"h = batch_norm(x, gamma, beta, mean, var); y = relu(h)", "", "y = batch_norm_relu(x, gamma, beta, mean, var)",
     "h is neither written nor read"},
    {"d = relu_grad(dy, y); dgamma, dbeta = batch_norm_sums(d, x, mean, var)",
     "y = batch_norm_relu(x, gamma, beta, mean, var)",
     "dgamma, dbeta = batch_norm_relu_sums(dy, x, gamma, beta, mean, var)", "y is not read"},
    {"d = relu_grad(dy, y); dx = batch_norm_dx(d, x, gamma, mean, var, dgamma, dbeta)",
     "y = batch_norm_relu(x, gamma, beta, mean, var)",
     "dx = batch_norm_relu_dx(dy, x, gamma, beta, mean, var, dgamma, dbeta)", "d is neither written nor read"},
    {"w = cast(b); d = add_n(w, a); dx = relu_grad(d, y)", "", "dx = add_relu_grad(a, b, y)",
     "d and w are neither written nor read"},
    {"d = add_n(a, b); dx = relu_grad(d, y)", "", "dx = add_relu_grad(a, b, y)", "d is neither written nor read"},
    {"x = add(a, b); y, mean, rstd = layer_norm(x, gamma, beta)", "",
     "x, y, mean, rstd = add_layer_norm(a, b, gamma, beta)", "x is not read"},
    {"x = add(a, b); y, rstd = rms_norm(x, gamma)", "", "x, y, rstd = add_rms_norm(a, b, gamma)", "x is not read"},
    {"dx, dgamma, dbeta = layer_norm_grad(dy, x, gamma, mean, rstd); d = add_n(r, dx)", "",
     "d, dgamma, dbeta = add_layer_norm_grad(r, dy, x, gamma, mean, rstd)", "dx is neither written nor read"},
    {"dx, dgamma = rms_norm_grad(dy, x, gamma, rstd); d = add_n(r, dx)", "",
     "d, dgamma = add_rms_norm_grad(r, dy, x, gamma, rstd)", "dx is neither written nor read"},
    {"z = matmul{transpose_b}(x, w); loss, lse = softmax_cross_entropy{}(z, labels); "
     "dz = softmax_cross_entropy_grad{}(dloss, z, labels, lse); "
     "dx = matmul{transpose_b: dx_transpose_b, out_dtype}(dz, w); dw = matmul_wgrad{transpose: dw_transpose}(x, dz)",
     "", "loss, dx, dw = matmul_cross_entropy_grad(x, w, labels, dloss)", "z and dz are never there but for a block",
     true},
    {"z = matmul{transpose_b}(x, w); loss, lse = softmax_cross_entropy{}(z, labels); "
     "g = softmax_cross_entropy_grad{}(dloss, z, labels, lse); dz = cast{dtype: dz_dtype}(g); "
     "dx = matmul{transpose_b: dx_transpose_b, out_dtype}(dz, w); dw = matmul_wgrad{transpose: dw_transpose}(x, dz)",
     "", "loss, dx, dw = matmul_cross_entropy_grad(x, w, labels, dloss)", "z, g and dz are never there but for a block",
     true},
    {"z = packed_matmul{}(x, w); loss, lse = softmax_cross_entropy{}(z, labels); "
     "g = softmax_cross_entropy_grad{}(dloss, z, labels, lse); dz = cast{dtype: dz_dtype}(g); "
     "dx = packed_matmul{out_dtype}(dz, wt); dw = matmul_wgrad{transpose: dw_transpose}(x, dz)",
     "", "loss, dx, dw = packed_matmul_cross_entropy_grad(x, w, wt, labels, dloss)",
     "z, g and dz are never there but for a block", true, kCpu},
    {"z = matmul{transpose_b}(x, w); y = bias_add(z, b)", "", "y = matmul_bias(x, w, b)",
     "z is neither written nor read", false, kCpu},
    {"z = packed_matmul{out_dtype}(x, w); h = bias_add(z, b); y = gelu(h)", "",
     "h, y = packed_matmul_bias_gelu(x, w, b)", "z is neither written nor read, and h is not read", false, kCpu},
    {"z = packed_matmul{out_dtype}(x, w); y = bias_add(z, b)", "", "y = packed_matmul_bias(x, w, b)",
     "z is neither written nor read", false, kCpu},
    {"z = packed_matmul{}(dy, w); d = gelu_grad(z, h); db = bias_grad(d)", "",
     "d, db = packed_matmul_gelu_bias_grad(dy, w, h)", "z is neither written nor read, and d is not read", true, kCpu},
    {"x = packed_matmul{}(a, u); y = packed_matmul{}(b, v); z = packed_matmul{}(c, w); d = add_n(x, y, z)", "",
     "d = sum_packed_matmul(a, u, b, v, c, w)", "x, y and z are neither written nor read", false, kCpu},
    {"x = packed_matmul{}(a, u); y = packed_matmul{}(b, v); d = add_n(x, y)", "", "d = sum_packed_matmul(a, u, b, v)",
     "x and y are neither written nor read", false, kCpu},
    {"h = bias_add(x, b); y = gelu(h)", "", "h, y = bias_add_gelu(x, b)", "h is not read", false, kCuda},
    {"d = gelu_grad(dy, h); db = bias_grad(d)", "", "d, db = gelu_bias_grad(dy, h)", "d is not read", true, kCuda},
    {"g = embedding_grad{rows}(dy, ids); d = add_n{}(a, g)", "", "d = add_embedding_grad(a, dy, ids)",
     "g is neither written nor read, nor a but for the rows of ids", true},
    {"g = embedding_grad{rows}(dy, ids); d = add_n{}(g, a)", "", "d = add_embedding_grad(a, dy, ids)",
     "g is neither written nor read, nor a but for the rows of ids", true},
    {"z = matmul{transpose_b}(x, w); loss, lse = softmax_cross_entropy{}(z, labels)", "",
     "loss = matmul_cross_entropy(x, w, labels)", "z is never there but for a block"},
    {"z = packed_matmul{}(x, w); loss, lse = softmax_cross_entropy{}(z, labels)", "",
     "loss = packed_matmul_cross_entropy(x, w, labels)", "z is never there but for a block", false, kCpu},
    {"d = matmul_wgrad(x, dy); s = accumulate(d)", "", "s = accumulate_matmul_wgrad(x, dy)",
     "d is neither written nor read", false, kCuda, /*of_sums=*/true},
};

absl::StatusOr<std::vector<std::string>> Names(LineReader& line) {
  std::vector<std::string> names;
  do {
    OF_ASSIGN_OR_RETURN(const absl::string_view name, line.Word("a value"));
    names.emplace_back(name);
  } while (line.Accept(","));
  return names;
}

// "{}", "{a, b: c}".
absl::StatusOr<std::map<std::string, std::string>> Attributes(LineReader& line) {
  std::map<std::string, std::string> names;
  if (line.Accept("}")) return names;
  do {
    OF_ASSIGN_OR_RETURN(const absl::string_view attribute, line.Word("an attribute"));
    absl::string_view name = attribute;
    if (line.Accept(":")) {
      OF_ASSIGN_OR_RETURN(name, line.Word("a name"));
    }
    names.emplace(attribute, name);
  } while (line.Accept(","));
  OF_RETURN_IF_ERROR(line.Expect("}", "after the attributes"));
  return names;
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

// REQUIRES: the row can be parsed, which a test checks for all.
Fusion Read(const FusionRow& row) {
  const auto calls = [](absl::string_view text) {
    const absl::StatusOr<std::vector<PatternCall>> read = ParseCalls(text);
    CHECK(read.ok()) << text << ": " << read.status();
    return *read;
  };
  Fusion fusion{calls(row.parts), calls(row.given), calls(row.whole)[0], std::string(row.parts),
                row.across_roles, row.only,         row.of_sums};
  if (!row.given.empty()) absl::StrAppend(&fusion.made_of, " where ", row.given);
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
