#include "oneflow_core/functional.h"

#include <algorithm>

#include "oneflow_core/literal.h"
#include "oneflow_core/ragged.h"

namespace oneflow {
namespace {

// The outputs of `op`, at least `num_outputs` of them, invalid ones if something is wrong. An invalid input beside a
// valid one is told to the builder: either it already holds the error that made it invalid, or a tensor was never made.
std::vector<Tensor> Call(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs, Location loc,
                         size_t num_outputs = 1) {
  const auto valid = std::find_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.valid(); });
  std::vector<Tensor> outputs;
  if (valid != inputs.end()) outputs = valid->builder()->Op(op, inputs, std::move(attrs), loc);
  if (outputs.size() < num_outputs) outputs.resize(num_outputs);
  return outputs;
}

Tensor Call1(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs, Location loc) {
  return Call(op, inputs, std::move(attrs), loc)[0];
}

// A scalar beside x, of its type.
Tensor NumberLike(Tensor x, double value, Location loc) {
  if (!x.valid()) return x;
  return Constant(*x.builder(), {x.type().dtype, {}}, value, loc);
}

// A negative axis counts from the last dimension. One that does not exist is left for type inference to refuse.
int64_t Resolve(const Tensor& x, int64_t axis) { return axis < 0 ? axis + x.shape().rank() : axis; }

// `axes` from 0 on, ascending; all dimensions if there are none.
std::vector<int64_t> Axes(const Tensor& x, std::vector<int64_t> axes) {
  for (int64_t& axis : axes) axis = Resolve(x, axis);
  std::sort(axes.begin(), axes.end());
  if (axes.empty()) {
    for (int i = 0; i < x.shape().rank(); ++i) axes.push_back(i);
  }
  return axes;
}

bool Contains(const std::vector<int64_t>& axes, int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Tensor Reduce(absl::string_view op, Tensor x, std::vector<int64_t> axes, bool keepdims, Location loc) {
  axes = Axes(x, std::move(axes));
  return Call1(op, {x}, {{"axes", std::move(axes)}, {"keepdims", keepdims}}, loc);
}

// One dilation and one group are left out.
AttrMap AttrsOf(const ConvWindow& window) {
  AttrMap attrs = {{"stride", window.stride}, {"padding", window.padding}};
  if (window.dilation != 1) attrs.Set("dilation", window.dilation);
  if (window.groups != 1) attrs.Set("groups", window.groups);
  return attrs;
}

// The mean over the rows of a ragged x that are filled, and over the other `axes`, which are ascending: their sum, by
// how many elements that is. Of groups without rows it is 0.
Tensor MeanOfRows(Tensor x, const std::vector<int64_t>& axes, bool keepdims, Location loc) {
  const TensorType type = x.type();  // a copy: adding nodes moves the types of the graph
  const Tensor counts(x.builder(), CountsOf(x.builder()->graph(), x.id()));
  const Tensor sum = Cast(ReduceSum(x, axes, keepdims, loc), DType::kFloat32, loc);
  std::vector<int64_t> groups, kept;  // of the counts: the dimensions that are reduced; what remains, as of the mean
  double elements_of_row = 1;
  for (int d = 0; d < type.shape.rank(); ++d) {
    const bool reduced = Contains(axes, d);
    if (reduced && d < type.ragged) groups.push_back(d);
    if (reduced && d > type.ragged) elements_of_row *= static_cast<double>(type.shape[d]);
    if (!reduced || keepdims) kept.push_back(reduced || d > type.ragged ? 1 : type.shape[d]);
  }
  Tensor rows = Cast(counts, DType::kFloat32, loc);
  if (!groups.empty()) rows = ReduceSum(rows, groups, /*keepdims=*/false, loc);
  // Less than one row is none, whose sum is 0.
  const Tensor one = Constant(*x.builder(), {DType::kFloat32, {}}, 1, loc);
  Tensor elements = Scale(Maximum(rows, one, loc), elements_of_row, loc);
  if (elements.valid() && elements.shape().dims() != kept) elements = Reshape(elements, kept, loc);
  return Cast(Div(sum, elements, loc), type.dtype, loc);
}

}  // namespace

#define ONEFLOW_DEFINE(Name, op, ...) \
  Tensor Name(Tensor x, Location loc) { return Call1(#op, {x}, {}, loc); }
ONEFLOW_UNARY_FUNCTIONS(ONEFLOW_DEFINE)
#undef ONEFLOW_DEFINE
#define ONEFLOW_DEFINE(Name, op, ...) \
  Tensor Name(Tensor a, Tensor b, Location loc) { return Call1(#op, {a, b}, {}, loc); }
ONEFLOW_BINARY_FUNCTIONS(ONEFLOW_DEFINE)
ONEFLOW_COMPARISONS(ONEFLOW_DEFINE)
ONEFLOW_LOGICAL_FUNCTIONS(ONEFLOW_DEFINE)
#undef ONEFLOW_DEFINE
Tensor LogicalNot(Tensor x, Location loc) { return Equal(x, NumberLike(x, 0, loc), loc); }
Tensor Where(Tensor condition, Tensor a, Tensor b, Location loc) { return Call1("where", {a, b, condition}, {}, loc); }
#define ONEFLOW_DEFINE(op, Name) \
  Tensor operator op(LocatedTensor a, double b) { return Name(a.tensor, NumberLike(a.tensor, b, a.loc), a.loc); }
ONEFLOW_DEFINE(<, Less)
ONEFLOW_DEFINE(<=, LessEqual)
ONEFLOW_DEFINE(>, Greater)
ONEFLOW_DEFINE(>=, GreaterEqual)
#undef ONEFLOW_DEFINE
Tensor StopGradient(Tensor x, Location loc) { return Call1("stop_gradient", {x}, {}, loc); }

Tensor Scale(Tensor x, double alpha, Location loc) { return Call1("scale", {x}, {{"alpha", alpha}}, loc); }
Tensor AddScalar(Tensor x, double alpha, Location loc) { return Call1("add_scalar", {x}, {{"alpha", alpha}}, loc); }
Tensor Neg(Tensor x, Location loc) { return Call1("neg", {x}, {}, loc); }
Tensor Cast(Tensor x, DType dtype, Location loc) {
  if (x.valid() && x.type().dtype == dtype) return x;
  return Call1("cast", {x}, {{"dtype", std::string(Name(dtype))}}, loc);
}

Tensor BiasAdd(Tensor x, Tensor b, int axis, Location loc) {
  return Call1("bias_add", {x, b}, {{"axis", Resolve(x, axis)}}, loc);
}

Tensor Dropout(Tensor x, double rate, Location loc) {
  if (rate == 0) return x;
  return Call1("dropout", {x}, {{"rate", rate}}, loc);
}
Tensor UniformLike(Tensor x, Location loc) { return Call1("uniform_like", {StopGradient(x, loc)}, {}, loc); }
Tensor NormalLike(Tensor x, Location loc) { return Call1("normal_like", {StopGradient(x, loc)}, {}, loc); }

Tensor ReduceSum(Tensor x, std::vector<int64_t> axes, bool keepdims, Location loc) {
  return Reduce("reduce_sum", x, std::move(axes), keepdims, loc);
}
Tensor ReduceMean(Tensor x, std::vector<int64_t> axes, bool keepdims, Location loc) {
  if (!x.valid()) return x;
  axes = Axes(x, std::move(axes));
  const bool over_rows = x.type().is_ragged() && Contains(axes, x.type().ragged);
  if (!over_rows) return Reduce("reduce_mean", x, std::move(axes), keepdims, loc);
  return MeanOfRows(x, axes, keepdims, loc);
}
Tensor ReduceMax(Tensor x, std::vector<int64_t> axes, bool keepdims, Location loc) {
  return Reduce("reduce_max", x, std::move(axes), keepdims, loc);
}
Tensor ReduceMin(Tensor x, std::vector<int64_t> axes, bool keepdims, Location loc) {
  return Reduce("reduce_min", x, std::move(axes), keepdims, loc);
}

Tensor StepMean(Tensor total, Tensor weight, Location loc) { return Call1("step_mean", {total, weight}, {}, loc); }

Tensor Cumsum(Tensor x, int axis, bool exclusive, bool reverse, Location loc) {
  return Call1("cumsum", {x}, {{"axis", Resolve(x, axis)}, {"exclusive", exclusive}, {"reverse", reverse}}, loc);
}

Tensor Reshape(Tensor x, std::vector<int64_t> shape, Location loc) {
  // A -1 that has no solution stays in the list, and type inference refuses it with both shapes.
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (x.valid() && unknown != shape.end()) {
    int64_t known = 1;
    for (auto size = shape.begin(); size != shape.end(); ++size) {
      if (size != unknown && __builtin_mul_overflow(known, *size, &known)) known = 0;
    }
    if (known > 0 && x.shape().count() % known == 0) *unknown = x.shape().count() / known;
  }
  return Call1("reshape", {x}, {{"shape", std::move(shape)}}, loc);
}

Tensor BroadcastTo(Tensor x, std::vector<int64_t> shape, Location loc) {
  return Call1("broadcast_to", {x}, {{"shape", std::move(shape)}}, loc);
}

Tensor Transpose(Tensor x, std::vector<int64_t> perm, Location loc) {
  for (int64_t& dim : perm) dim = Resolve(x, dim);
  return Call1("transpose", {x}, {{"perm", std::move(perm)}}, loc);
}

Tensor Slice(Tensor x, int axis, int64_t start, int64_t size, Location loc) {
  return Call1("slice", {x}, {{"axis", Resolve(x, axis)}, {"start", start}, {"size", size}}, loc);
}

Tensor Flip(Tensor x, int axis, Location loc) { return Call1("flip", {x}, {{"axis", Resolve(x, axis)}}, loc); }

Tensor Concat(const std::vector<Tensor>& xs, int axis, Location loc) {
  return Call1("concat", xs, {{"axis", xs.empty() ? int64_t{axis} : Resolve(xs[0], axis)}}, loc);
}

Tensor Pad(Tensor x, std::vector<int64_t> before, std::vector<int64_t> after, double value, Location loc) {
  return Call1("pad", {x}, {{"before", std::move(before)}, {"after", std::move(after)}, {"value", value}}, loc);
}

Tensor MatMul(Tensor a, Tensor w, bool transpose_b, Location loc) {
  return Call1("matmul", {a, w}, {{"transpose_b", transpose_b}}, loc);
}

Tensor BatchMatMul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, Location loc) {
  return Call1("batch_matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}, loc);
}

Tensor Softmax(Tensor x, Location loc) { return Call1("softmax", {x}, {}, loc); }

Tensor LayerNorm(Tensor x, Tensor gamma, Tensor beta, double epsilon, Location loc) {
  return Call1("layer_norm", {x, gamma, beta}, {{"epsilon", epsilon}}, loc);
}

Tensor RmsNorm(Tensor x, Tensor gamma, double epsilon, Location loc) {
  return Call1("rms_norm", {x, gamma}, {{"epsilon", epsilon}}, loc);
}

BatchNormalized BatchNorm(Tensor x, Tensor gamma, Tensor beta, double epsilon, Location loc) {
  const Tensor mean = Call1("channel_mean", {x}, {}, loc);
  const Tensor var = Call1("channel_variance", {x, mean}, {}, loc);
  const AttrMap attrs = {{"epsilon", epsilon}, {"training", true}};
  return {Call1("batch_norm", {x, gamma, beta, mean, var}, attrs, loc), mean, var};
}

Tensor BatchNorm(Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor var, double epsilon, Location loc) {
  return Call1("batch_norm", {x, gamma, beta, mean, var}, {{"epsilon", epsilon}}, loc);
}

Tensor Embedding(Tensor w, Tensor ids, Location loc) { return Call1("embedding", {w, ids}, {}, loc); }

Tensor Gather(Tensor x, Tensor ids, int axis, Location loc) {
  return Call1("gather", {x, ids}, {{"axis", Resolve(x, axis)}}, loc);
}

// A negative axis counts from the last dimension of the result, which has one where ids has its own.
Tensor ScatterAdd(Tensor updates, Tensor ids, int axis, int64_t size, Location loc) {
  const int64_t rank = updates.shape().rank() - ids.shape().rank() + 1;
  return Call1("scatter_add", {updates, ids}, {{"axis", axis < 0 ? axis + rank : axis}, {"size", size}}, loc);
}

Tensor TakeAlong(Tensor x, Tensor ids, Location loc) { return Call1("take_along", {x, ids}, {}, loc); }

Tensor PutAlong(Tensor values, Tensor ids, int64_t columns, Location loc) {
  return Call1("put_along", {values, ids}, {{"columns", columns}}, loc);
}

Largest TopK(Tensor x, int64_t k, Location loc) {
  const std::vector<Tensor> outputs = Call("top_k", {x}, {{"k", k}}, loc, 2);
  return {outputs[0], outputs[1]};
}

Tensor RowDot(Tensor a, Tensor b, Location loc) { return Call1("row_dot", {a, b}, {}, loc); }

Tensor Rotary(Tensor x, int64_t heads, AttrMap attrs, Location loc) {
  attrs.Set("heads", heads);
  return Call1("rotary", {x}, std::move(attrs), loc);
}

Attended AttentionWithLse(Tensor q, Tensor k, Tensor v, const AttentionHeads& heads, const Documents& documents,
                          Location loc) {
  AttrMap attrs = {{"heads", heads.heads}, {"causal", heads.causal}};
  if (heads.kv_heads > 0 && heads.kv_heads != heads.heads) attrs.Set("kv_heads", heads.kv_heads);
  if (heads.window > 0) attrs.Set("window", heads.window);
  for (const auto& [name, value] :
       {std::pair{"scale", heads.scale}, {"soft_cap", heads.soft_cap}, {"dropout", heads.dropout}}) {
    if (value != 0) attrs.Set(name, value);
  }
  std::vector<Tensor> inputs = {q, k, v};
  if (documents.of_queries.valid()) inputs.insert(inputs.end(), {documents.of_queries, documents.of_keys});
  const std::vector<Tensor> outputs = Call("attention", inputs, std::move(attrs), loc, 2);
  return {outputs[0], outputs[1]};
}

Tensor Attention(Tensor q, Tensor k, Tensor v, const AttentionHeads& heads, Location loc) {
  return AttentionWithLse(q, k, v, heads, {}, loc).out;
}

Tensor Attention(Tensor q, Tensor k, Tensor v, int64_t heads, bool causal, Location loc) {
  return Attention(q, k, v, {.heads = heads, .causal = causal}, loc);
}

LstmStates Lstm(Tensor x, Tensor w, Tensor bias, Tensor h0, Tensor c0, Location loc) {
  const std::vector<Tensor> outputs = Call("lstm", {x, w, bias, h0, c0}, {}, loc, 3);
  return {outputs[0], outputs[1]};
}

Tensor Gru(Tensor x, Tensor w, Tensor bias, Tensor h0, Location loc) {
  return Call("gru", {x, w, bias, h0}, {}, loc, 2)[0];
}

Tensor CtcLoss(Tensor log_probs, Tensor labels, Tensor input_lengths, Tensor label_lengths, bool zero_infinity,
               Location loc) {
  AttrMap attrs;
  if (zero_infinity) attrs.Set("zero_infinity", true);
  return Call1("ctc_loss", {log_probs, labels, input_lengths, label_lengths}, std::move(attrs), loc);
}

Tensor SoftmaxCrossEntropy(Tensor logits, Tensor labels, Location loc) {
  return Call1("softmax_cross_entropy", {logits, labels}, {}, loc);
}

Tensor Top1Correct(Tensor logits, Tensor labels, Location loc) {
  return Call1("top1_correct", {logits, labels}, {}, loc);
}

Tensor KeepRows(Tensor x, Tensor counts, Location loc) { return Call1("keep_rows", {x, counts}, {}, loc); }

Tensor PadRows(Tensor x, Location loc) {
  if (!x.valid()) return x;
  const bool ragged = x.type().is_ragged();
  const Tensor counts = ragged ? Tensor(x.builder(), CountsOf(x.builder()->graph(), x.id())) : x;
  return Call1("pad_rows", {x, counts}, {}, loc);
}

Tensor RowCounts(Tensor ids, int64_t size, Location loc) { return Call1("row_counts", {ids}, {{"size", size}}, loc); }

Tensor Conv2d(Tensor x, Tensor k, int64_t stride, int64_t padding, Location loc) {
  return Conv2d(x, k, {.stride = stride, .padding = padding}, loc);
}

Tensor Conv2d(Tensor x, Tensor k, const ConvWindow& window, Location loc) {
  return Call1("conv2d", {x, k}, AttrsOf(window), loc);
}

Tensor ConvTranspose2d(Tensor x, Tensor k, const ConvWindow& window, int64_t output_padding, Location loc) {
  AttrMap attrs = AttrsOf(window);
  if (x.valid() && k.valid() && x.shape().rank() == 4 && k.shape().rank() == 4) {
    const auto size = [&](int dim) {
      return (x.shape()[dim] - 1) * window.stride - 2 * window.padding + (k.shape()[dim] - 1) * window.dilation + 1 +
             output_padding;
    };
    attrs.Set("height", size(2));
    attrs.Set("width", size(3));
  }
  return Call1("conv2d_dgrad", {x, k}, std::move(attrs), loc);
}

Tensor MaxPool2d(Tensor x, int64_t kernel, int64_t stride, Location loc) {
  return Call1("max_pool2d", {x}, {{"kernel", kernel}, {"stride", stride}}, loc);
}

Tensor AvgPool2d(Tensor x, int64_t kernel, int64_t stride, int64_t padding, Location loc) {
  return Call1("avg_pool2d", {x}, {{"kernel", kernel}, {"stride", stride}, {"padding", padding}}, loc);
}

Tensor AdaptiveAvgPool2d(Tensor x, int64_t height, int64_t width, Location loc) {
  return Call1("adaptive_avg_pool2d", {x}, {{"height", height}, {"width", width}}, loc);
}

TextBatch ReadText(GraphBuilder& builder, int64_t batch, int64_t context, AttrMap attrs, Location loc) {
  attrs.Set("dataset", std::string("text"));
  attrs.Set("batch", batch);
  attrs.Set("context", context);
  std::vector<Tensor> outputs = builder.Op("read_data", {}, std::move(attrs), loc);
  outputs.resize(2);
  return {outputs[0], outputs[1]};
}

ImageBatch ReadImages(GraphBuilder& builder, int64_t batch, int64_t channels, int64_t height, int64_t width,
                      AttrMap attrs, Location loc) {
  attrs.Set("dataset", std::string("images"));
  attrs.Set("batch", batch);
  attrs.Set("channels", channels);
  attrs.Set("height", height);
  attrs.Set("width", width);
  std::vector<Tensor> outputs = builder.Op("read_data", {}, std::move(attrs), loc);
  outputs.resize(2);
  return {outputs[0], outputs[1]};
}

Tensor Constant(GraphBuilder& builder, const TensorType& type, double value, Location loc) {
  return builder.Op1("constant", {},
                     {{"dtype", std::string(Name(type.dtype))}, {"shape", type.shape.dims()}, {"value", value}}, loc);
}

Tensor Constant(GraphBuilder& builder, const TensorType& type, const std::vector<double>& values, Location loc) {
  return builder.Op1(
      "literal", {},
      {{"dtype", std::string(Name(type.dtype))}, {"shape", type.shape.dims()}, {"values", LiteralText(values)}}, loc);
}

Tensor Arange(GraphBuilder& builder, DType dtype, int64_t size, double start, double step, Location loc) {
  return builder.Op1(
      "arange", {},
      {{"dtype", std::string(Name(dtype))}, {"shape", std::vector<int64_t>{size}}, {"start", start}, {"step", step}},
      loc);
}

Tensor CausalMask(GraphBuilder& builder, int64_t time, double ahead, Location loc) {
  const Tensor ones = Constant(builder, {DType::kFloat32, {time, time}}, 1, loc);
  const Tensor columns = Cumsum(ones, 1, false, false, loc), rows = Cumsum(ones, 0, false, false, loc);
  return Scale(Relu(Sub(columns, rows, loc), loc), ahead, loc);
}

void Fetch(Tensor x, const std::string& name, Location loc) { Call("fetch", {x}, {{"name", name}}, loc); }
void Assign(Tensor v, Tensor x, Location loc) { Call("assign", {v, x}, {}, loc); }
void Increment(Tensor v, Location loc) { Call("increment", {v}, {}, loc); }
void EmaUpdate(Tensor v, Tensor x, double decay, Location loc) { Call("ema_update", {v, x}, {{"decay", decay}}, loc); }

Tensor SampleToken(Tensor logits, Tensor length, double temperature, Location loc) {
  return Call1("sample_token", {logits, length}, {{"temperature", temperature}}, loc);
}

void AppendToken(Tensor tokens, Tensor length, Tensor id, Location loc) {
  Call("append_token", {tokens, length, id}, {}, loc);
}

}  // namespace oneflow
