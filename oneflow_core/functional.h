// The mathematics of the DSL: one free function per op, on tensors.
//
//   Tensor h = Gelu(BiasAdd(MatMul(x, w1), b1));
//   Tensor y = x + Dropout(MatMul(h, w2), 0.1);
//
// What each op computes is said in oneflow_core/ops/README.md. A function of an invalid tensor returns invalid tensors;
// the first error is kept by the builder and comes out of GraphBuilder::Finish() with the line that called the function
// here. Negative axes count from the last dimension.
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "oneflow_core/builder.h"
#include "oneflow_core/elementwise_functions.h"

namespace oneflow {

using Location = std::source_location;

// The functions of elementwise_functions.h: Exp(x), Relu(x), ... of one tensor, and Add(a, b), Maximum(a, b), ... of
// two, with NumPy broadcasting.
#define ONEFLOW_DECLARE(Name, ...) Tensor Name(Tensor x, Location loc = Location::current());
ONEFLOW_UNARY_FUNCTIONS(ONEFLOW_DECLARE)
#undef ONEFLOW_DECLARE
#define ONEFLOW_DECLARE(Name, ...) Tensor Name(Tensor a, Tensor b, Location loc = Location::current());
ONEFLOW_BINARY_FUNCTIONS(ONEFLOW_DECLARE)
// Equal(a, b), Less(a, b), ... of any one type, and LogicalAnd(a, b), ... of bools. They give bools, and no gradient
// flows through them.
ONEFLOW_COMPARISONS(ONEFLOW_DECLARE)
ONEFLOW_LOGICAL_FUNCTIONS(ONEFLOW_DECLARE)
#undef ONEFLOW_DECLARE
Tensor LogicalNot(Tensor x, Location loc = Location::current());
// a where `condition` is true and b elsewhere, with NumPy broadcasting.
Tensor Where(Tensor condition, Tensor a, Tensor b, Location loc = Location::current());

// An operand that remembers where it was written: operators cannot have a default argument.
struct LocatedTensor {
  LocatedTensor(Tensor t, Location l = Location::current()) : tensor(t), loc(l) {}  // NOLINT: meant to be implicit
  Tensor tensor;
  Location loc;
};
inline Tensor operator+(LocatedTensor a, Tensor b) { return Add(a.tensor, b, a.loc); }
inline Tensor operator-(LocatedTensor a, Tensor b) { return Sub(a.tensor, b, a.loc); }
inline Tensor operator*(LocatedTensor a, Tensor b) { return Mul(a.tensor, b, a.loc); }
inline Tensor operator/(LocatedTensor a, Tensor b) { return Div(a.tensor, b, a.loc); }

Tensor Scale(Tensor x, double alpha, Location loc = Location::current());      // alpha * x
Tensor AddScalar(Tensor x, double alpha, Location loc = Location::current());  // x + alpha
Tensor Neg(Tensor x, Location loc = Location::current());
// With numbers: x * 2 - 1 / y. A quotient by a number is the product with its inverse, rounded once.
inline Tensor operator-(LocatedTensor x) { return Neg(x.tensor, x.loc); }
inline Tensor operator+(LocatedTensor a, double b) { return AddScalar(a.tensor, b, a.loc); }
inline Tensor operator+(double a, LocatedTensor b) { return AddScalar(b.tensor, a, b.loc); }
inline Tensor operator-(LocatedTensor a, double b) { return AddScalar(a.tensor, -b, a.loc); }
inline Tensor operator-(double a, LocatedTensor b) { return AddScalar(Neg(b.tensor, b.loc), a, b.loc); }
inline Tensor operator*(LocatedTensor a, double b) { return Scale(a.tensor, b, a.loc); }
inline Tensor operator*(double a, LocatedTensor b) { return Scale(b.tensor, a, b.loc); }
inline Tensor operator/(LocatedTensor a, double b) { return Scale(a.tensor, 1 / b, a.loc); }
inline Tensor operator/(double a, LocatedTensor b) { return Scale(Reciprocal(b.tensor, b.loc), a, b.loc); }
// Comparisons with numbers, which are of the tensor's type: x < 2. A number that it cannot hold is an error. There is
// no ==, which would not say whether two handles are of one value: write Equal(a, b).
Tensor operator<(LocatedTensor a, double b);
Tensor operator<=(LocatedTensor a, double b);
Tensor operator>(LocatedTensor a, double b);
Tensor operator>=(LocatedTensor a, double b);
inline Tensor operator<(LocatedTensor a, Tensor b) { return Less(a.tensor, b, a.loc); }
inline Tensor operator<=(LocatedTensor a, Tensor b) { return LessEqual(a.tensor, b, a.loc); }
inline Tensor operator>(LocatedTensor a, Tensor b) { return Greater(a.tensor, b, a.loc); }
inline Tensor operator>=(LocatedTensor a, Tensor b) { return GreaterEqual(a.tensor, b, a.loc); }
// Of bools.
inline Tensor operator&(LocatedTensor a, Tensor b) { return LogicalAnd(a.tensor, b, a.loc); }
inline Tensor operator|(LocatedTensor a, Tensor b) { return LogicalOr(a.tensor, b, a.loc); }
inline Tensor operator!(LocatedTensor x) { return LogicalNot(x.tensor, x.loc); }
// x, through which no gradient flows.
Tensor StopGradient(Tensor x, Location loc = Location::current());
Tensor Cast(Tensor x, DType dtype, Location loc = Location::current());
// b[i] is added to all elements whose index along `axis` is i.
Tensor BiasAdd(Tensor x, Tensor b, int axis = -1, Location loc = Location::current());
// The identity if rate is 0. The mask differs between calls, steps and micro-batches, not between layouts.
Tensor Dropout(Tensor x, double rate, Location loc = Location::current());
// As many random numbers as x, an f32 tensor, has elements: in [0, 1), or normal ones of mean 0 and deviation 1. Like a
// mask of dropout they differ between calls, steps and micro-batches, not between layouts. No gradient flows to x.
Tensor UniformLike(Tensor x, Location loc = Location::current());
Tensor NormalLike(Tensor x, Location loc = Location::current());

// Over `axes`, in any order; {}: over all dimensions. Of ragged rows a sum and a mean are of those that are filled; the
// mean of none is 0.
Tensor ReduceSum(Tensor x, std::vector<int64_t> axes = {}, bool keepdims = false, Location loc = Location::current());
Tensor ReduceMean(Tensor x, std::vector<int64_t> axes = {}, bool keepdims = false, Location loc = Location::current());
Tensor ReduceMax(Tensor x, std::vector<int64_t> axes = {}, bool keepdims = false, Location loc = Location::current());
Tensor ReduceMin(Tensor x, std::vector<int64_t> axes = {}, bool keepdims = false, Location loc = Location::current());
// total / weight, or 0 of no weight, of f32 scalars. In a step of several micro-batches the loss, and what is fetched,
// is the sum of their totals by that of their weights; such a loss must be the only one of its graph.
Tensor StepMean(Tensor total, Tensor weight, Location loc = Location::current());
// The sums of x up to each index along `axis`: with it or, if `exclusive`, without it; from the last index on if
// `reverse`.
Tensor Cumsum(Tensor x, int axis, bool exclusive = false, bool reverse = false, Location loc = Location::current());

// At most one size may be -1; it follows from the others.
Tensor Reshape(Tensor x, std::vector<int64_t> shape, Location loc = Location::current());
Tensor BroadcastTo(Tensor x, std::vector<int64_t> shape, Location loc = Location::current());
// Dimension i of the result is dimension perm[i] of x.
Tensor Transpose(Tensor x, std::vector<int64_t> perm, Location loc = Location::current());
// x[start : start + size] along `axis`.
Tensor Slice(Tensor x, int axis, int64_t start, int64_t size, Location loc = Location::current());
// x in reverse along `axis`.
Tensor Flip(Tensor x, int axis, Location loc = Location::current());
Tensor Concat(const std::vector<Tensor>& xs, int axis, Location loc = Location::current());
// x with before[i] and after[i] elements of `value` around it in each dimension i.
Tensor Pad(Tensor x, std::vector<int64_t> before, std::vector<int64_t> after, double value = 0,
           Location loc = Location::current());

// a [..,k] times w [k,n], or [n,k] if transpose_b.
Tensor MatMul(Tensor a, Tensor w, bool transpose_b = false, Location loc = Location::current());
// a [..,m,k] times b [..,k,n], each stored transposed if so said.
Tensor BatchMatMul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false,
                   Location loc = Location::current());
Tensor Softmax(Tensor x, Location loc = Location::current());
Tensor LayerNorm(Tensor x, Tensor gamma, Tensor beta, double epsilon = 1e-5, Location loc = Location::current());
Tensor RmsNorm(Tensor x, Tensor gamma, double epsilon = 1e-5, Location loc = Location::current());
// x [n,c,..] normalised per channel (dimension 1) by the statistics of the whole batch, which are returned too: mean
// [c] and the biased variance var [c], in f32.
struct BatchNormalized {
  Tensor y, mean, var;
};
BatchNormalized BatchNorm(Tensor x, Tensor gamma, Tensor beta, double epsilon = 1e-5,
                          Location loc = Location::current());
// The same by given statistics.
Tensor BatchNorm(Tensor x, Tensor gamma, Tensor beta, Tensor mean, Tensor var, double epsilon = 1e-5,
                 Location loc = Location::current());
// Rows of w [v,h] for ids [..].
Tensor Embedding(Tensor w, Tensor ids, Location loc = Location::current());
// x with its dimension `axis` replaced by those of ids: slice ids[i..] of x stands at i... Indices outside of x are
// errors.
Tensor Gather(Tensor x, Tensor ids, int axis = 0, Location loc = Location::current());
// The transpose of Gather: zeros with `size` at `axis`, to whose slice ids[i..] the slice of updates at i.. is added.
Tensor ScatterAdd(Tensor updates, Tensor ids, int axis, int64_t size, Location loc = Location::current());
// x[.., ids[.., j]] at [.., j], for x [..,c] and ids [..,k].
Tensor TakeAlong(Tensor x, Tensor ids, Location loc = Location::current());
// The transpose of TakeAlong: zeros [..,columns], to whose column ids[.., j] is added values[.., j].
Tensor PutAlong(Tensor values, Tensor ids, int64_t columns, Location loc = Location::current());
// The k largest of each row of x [..,c], largest first, and their columns; of equal ones the lowest column first.
struct Largest {
  Tensor values;   // [..,k], as x
  Tensor indices;  // i32[..,k]
};
Largest TopK(Tensor x, int64_t k, Location loc = Location::current());
// The sum of a * b over the last dimension, in f32.
Tensor RowDot(Tensor a, Tensor b, Location loc = Location::current());
// Rotary position embedding of x [b,t,c]: pairs of columns of each head are turned by angles that grow with the
// position. `attrs` are those of the op (oneflow_core/ops/README.md): width, theta, scaling, ...
Tensor Rotary(Tensor x, int64_t heads, AttrMap attrs = {}, Location loc = Location::current());
struct AttentionHeads {
  int64_t heads = 1;
  int64_t kv_heads = 0;  // which divide heads; 0: as many
  bool causal = false;
  int64_t window = 0;   // of a causal one: a query sees itself and so many less one before it; 0: all
  double scale = 0;     // of the scores; 0: 1 / sqrt(size of a head)
  double soft_cap = 0;  // c: scores are c tanh(score / c); 0: as they are
  double dropout = 0;   // of the probabilities
};
// Of which document each token is: a query sees keys of its own alone. i32[b,t] of queries and i32[b,s] of keys, or
// neither.
struct Documents {
  Tensor of_queries, of_keys;
};
// What each query made of the keys that it saw, and the logarithm of the sum of the exponentials of its scores; zeros
// and -infinity if it saw none. Both have gradients.
struct Attended {
  Tensor out;  // as q
  Tensor lse;  // f32[b,heads,t]
};
// q [b,t,c] with c divided among the heads; k, v [b,s,kv_heads * size of a head].
Tensor Attention(Tensor q, Tensor k, Tensor v, const AttentionHeads& heads, Location loc = Location::current());
Tensor Attention(Tensor q, Tensor k, Tensor v, int64_t heads, bool causal, Location loc = Location::current());
Attended AttentionWithLse(Tensor q, Tensor k, Tensor v, const AttentionHeads& heads, const Documents& documents = {},
                          Location loc = Location::current());
// What a recurrence makes of x [b,t,4h], what inputs give the gates i, f, g, o, and of initial states [b,h]; w [h,4h]
// and bias [4h] are what states give them (oneflow_core/ops/recurrence.cc). All is f32.
struct LstmStates {
  Tensor y, cells;  // [b,t,h]
};
LstmStates Lstm(Tensor x, Tensor w, Tensor bias, Tensor h0, Tensor c0, Location loc = Location::current());
// The same with the gates r, z, n: x [b,t,3h], w [h,3h], bias [3h]; gives y [b,t,h].
Tensor Gru(Tensor x, Tensor w, Tensor bias, Tensor h0, Location loc = Location::current());
// The loss of each row of logits [..,c] against labels [..].
Tensor SoftmaxCrossEntropy(Tensor logits, Tensor labels, Location loc = Location::current());
// The loss of each sample of log_probs f32[b,t,c], normalised over the classes, against the first label_lengths i32[b]
// of labels i32[b,s], which are neither the class 0, the blank, nor anything else than a class, by its first
// input_lengths i32[b] steps. It is infinite where labels do not fit into the steps; with `zero_infinity` it is 0 then,
// and without a gradient.
Tensor CtcLoss(Tensor log_probs, Tensor labels, Tensor input_lengths, Tensor label_lengths, bool zero_infinity = false,
               Location loc = Location::current());
// 1 for each row whose largest logit is the label's, else 0.
Tensor Top1Correct(Tensor logits, Tensor labels, Location loc = Location::current());

// Of both axes. `groups` of channels are convolved apart: k has the channels of one.
struct ConvWindow {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
// x [n,c,h,w] with k [o,c/groups,i,j].
Tensor Conv2d(Tensor x, Tensor k, const ConvWindow& window, Location loc = Location::current());
// The transpose of the convolution that makes x [n,o,p,q] of the result [n,c,h,w], with k [o,c/groups,i,j]. Several
// sizes may give that of x under a stride: the result is the smallest, and `output_padding` larger.
Tensor ConvTranspose2d(Tensor x, Tensor k, const ConvWindow& window, int64_t output_padding = 0,
                       Location loc = Location::current());
// x [n,c,h,w] with k [o,c,i,j]; stride and padding are those of both axes.
Tensor Conv2d(Tensor x, Tensor k, int64_t stride = 1, int64_t padding = 0, Location loc = Location::current());
Tensor MaxPool2d(Tensor x, int64_t kernel, int64_t stride, Location loc = Location::current());
// Means of windows, in which the padding counts as zeros.
Tensor AvgPool2d(Tensor x, int64_t kernel, int64_t stride, int64_t padding = 0, Location loc = Location::current());
// Means of as many windows as the result has pixels: [n,c,height,width].
Tensor AdaptiveAvgPool2d(Tensor x, int64_t height, int64_t width, Location loc = Location::current());

// Ragged tensors (oneflow_core/ragged.h): of x [g..,m,..] the first counts[g..] of m rows.
Tensor KeepRows(Tensor x, Tensor counts, Location loc = Location::current());
// The ragged x as a dense one, with zeros behind its rows.
Tensor PadRows(Tensor x, Location loc = Location::current());
// counts[.., i] = how many of ids[.., t] are i, for i < size; an id outside is an error.
Tensor RowCounts(Tensor ids, int64_t size, Location loc = Location::current());

// Sources. `attrs` go to the data source as they are (path, split, ...).
struct TextBatch {
  Tensor tokens;  // i32[batch,context]
  Tensor labels;  // i32[batch,context]: the token that follows each
};
TextBatch ReadText(GraphBuilder& builder, int64_t batch, int64_t context, AttrMap attrs = {},
                   Location loc = Location::current());
struct ImageBatch {
  Tensor images;  // f32[batch,channels,height,width]
  Tensor labels;  // i32[batch]
};
ImageBatch ReadImages(GraphBuilder& builder, int64_t batch, int64_t channels, int64_t height, int64_t width,
                      AttrMap attrs = {}, Location loc = Location::current());
Tensor Constant(GraphBuilder& builder, const TensorType& type, double value, Location loc = Location::current());
// A constant of these values, row by row.
Tensor Constant(GraphBuilder& builder, const TensorType& type, const std::vector<double>& values,
                Location loc = Location::current());
// [size]: start, start + step, start + 2 step, ...
Tensor Arange(GraphBuilder& builder, DType dtype, int64_t size, double start = 0, double step = 1,
              Location loc = Location::current());

// f32[time,time]: 0 where a token (a row) may look, and `ahead` times as much as one lies ahead of it where it may not.
Tensor CausalMask(GraphBuilder& builder, int64_t time, double ahead, Location loc = Location::current());

// Effects. `v`, `tokens` and `length` must be variables.
void Fetch(Tensor x, const std::string& name, Location loc = Location::current());  // x is handed to the host each step
void Assign(Tensor v, Tensor x, Location loc = Location::current());
void Increment(Tensor v, Location loc = Location::current());
// v = decay * v + (1 - decay) * x, in f32; once per step, with the mean of x over its micro-batches.
void EmaUpdate(Tensor v, Tensor x, double decay, Location loc = Location::current());
// Draws the token after tokens[length - 1] from logits [1,t,v]; temperature 0: the likeliest.
Tensor SampleToken(Tensor logits, Tensor length, double temperature, Location loc = Location::current());
// Appends `id` to the `length` tokens; when there is no room the oldest is dropped.
void AppendToken(Tensor tokens, Tensor length, Tensor id, Location loc = Location::current());

}  // namespace oneflow
