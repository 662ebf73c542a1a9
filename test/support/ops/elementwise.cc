// What tests know of `elementwise`: it is what its calls are one by one.
#include "oneflow_core/elementwise.h"

#include <algorithm>

#include "test/support/ops/kit.h"
#include "test/support/standard_ops.h"

namespace oneflow::testing {

// The families whose ops programs are made of.
namespace UnaryOps {
OpFacts Facts();
}
namespace BinaryOps {
OpFacts Facts();
}
namespace CastOps {
OpFacts Facts();
}

namespace ElementwiseOps {
namespace {

using Kind = ElementwiseValue::Kind;

Tensors Elementwise(RefCall& c) {
  const ElementwiseProgram program = *ParseElementwise(c.attrs.String("made_of"));
  Tensors outputs(program.outputs), temporaries(program.temporaries);
  const auto at = [&](const ElementwiseValue& value) -> RefTensor& {
    return value.kind == Kind::kInput    ? c.in[value.index]
           : value.kind == Kind::kOutput ? outputs[value.index]
                                         : temporaries[value.index];
  };
  for (const ElementwiseCall& call : program.calls) {
    Tensors in;
    for (const ElementwiseValue& value : call.in) in.push_back(at(value));
    RefTensor given = (*Reference(call.op, call.attrs, in))[0];
    given.dtype = ElementwiseDType(call, in[0].dtype);
    at(call.out) = Rounded(std::move(given));
  }
  return outputs;
}

constexpr const char kTypes[] = R"lines(
elementwise(f32[2,3]) {made_of="t0 = neg(x0); y0 = add(x0, t0)"} = f32[2,3]
elementwise(f32[2,3]) {made_of="y0 = exp(x0); y1 = cast(y0) {dtype=\"bf16\"}"} = f32[2,3] bf16[2,3]
elementwise(bf16[4] bf16[4]) {made_of="y0 = add_n(x0, x1) {out_dtype=\"f32\"}; y1 = square(y0)"} = f32[4] f32[4]
elementwise(f32[2,3] f32[]) {made_of="t0 = scale(x0) {alpha=0.5}; y0 = mul(t0, x1)"} = f32[2,3]
elementwise(f32[2]) ! attribute 'made_of' is missing
elementwise(i32[2]) {made_of="y0 = neg(x0)"} ! x is i32[2] but must be floating
elementwise(f32[2]) {made_of="y0 = neg(x0)("} ! attribute 'made_of': expected ';' but found '('
elementwise(f32[2]) {made_of="y0 = neg(x1)"} ! attribute 'made_of': there are 1 of x, but not those with the smallest
    numbers
elementwise(f32[2] f32[2]) {made_of="y0 = neg(x0)"} ! attribute 'made_of' reads 1 inputs but is given 2
elementwise(f32[2]) {made_of="y0 = softmax(x0)"} ! its softmax: 'softmax' is no elementwise op
elementwise(bf16[2]) {made_of="y0 = exp(x0)"} ! its exp: is computed in f32, but x is bf16[2]
elementwise(f32[2]) {made_of="y0 = scale(x0)"} ! its scale: attribute 'alpha' is missing
elementwise(f32[2]) {made_of="y0 = cast(x0) {dtype=\"i32\"}"} ! its cast: i32[2] must be floating
elementwise(f32[2] f32[2,2]) {made_of="t0 = neg(x0); y0 = add(t0, x1)"} ! input 0 is f32[2] but must be a scalar or as
    large as f32[2,2]
elementwise(f32[] f32[2]) {made_of="t0 = neg(x0); y0 = add(t0, x1)"} ! its neg gives f32[] but must give all of f32[2]
)lines";

constexpr const char kSignatures[] = R"lines(
elementwise(f32[8,4], f32[8,4]) {made_of="t0 = neg(x0); y0 = mul(t0, x1)"} | - | S(0),S(0)->S(0) S(1),S(1)->S(1) | - |
    - |
    as relu
elementwise(f32[8,4], f32[]) {made_of="t0 = neg(x0); y0 = mul(t0, x1); y1 = exp(x0)"} | - | S(0),B->S(0),S(0)
    S(1),B->S(1),S(1) | - | - | as relu
)lines";

OpCase Program(const std::string& what, const std::string& made_of, Tensors inputs, double tolerance = 2e-6) {
  return {"elementwise", what, {{"made_of", made_of}}, std::move(inputs), tolerance};
}

// Elementwise ops that are linear enough for errors not to grow, and what they are called with.
struct Part {
  const char* op;
  int operands;
  AttrMap attrs = {};
};
const std::vector<Part>& Parts() {
  static const auto* const parts = new std::vector<Part>{{"scale", 1, {{"alpha", -0.75}}},
                                                         {"add_scalar", 1, {{"alpha", 0.5}}},
                                                         {"neg", 1},
                                                         {"tanh", 1},
                                                         {"sigmoid", 1},
                                                         {"relu", 1},
                                                         {"gelu", 1},
                                                         {"add", 2},
                                                         {"sub", 2},
                                                         {"maximum", 2},
                                                         {"minimum", 2},
                                                         {"add_n", 2},
                                                         {"add_n", 3}};
  return *parts;
}

// A program of `calls` random calls on two inputs of these sizes, and a product of the last with a scalar. The last
// three values are outputs.
OpCase RandomProgram(Random& r, const Dims& dims, int calls, int in_place) {
  const auto draw = [&](int64_t below) { return static_cast<int>(r.Integers({}, below).values[0]); };
  constexpr int kInputs = 3;
  ElementwiseProgram program;
  std::vector<ElementwiseValue> whole;  // values that are no scalar
  for (int i = 0; i + 1 < kInputs; ++i) whole.push_back({Kind::kInput, i});
  for (int i = 0; i < calls; ++i) {
    const bool first = i < kInputs - 1;  // every input is read
    const Part& part = Parts()[draw(static_cast<int64_t>(Parts().size()))];
    ElementwiseCall call{part.op, part.attrs, {}, {Kind::kTemporary, i}};
    for (int k = 0; k < part.operands; ++k) {
      call.in.push_back(k == 0 && first ? ElementwiseValue{Kind::kInput, i}
                                        : whole[draw(static_cast<int64_t>(whole.size()))]);
    }
    if (calls - i > 2) whole.push_back(call.out);  // what is rounded is not read, which would double its error
    program.calls.push_back(std::move(call));
  }
  program.calls.push_back({"mul", {}, {whole.back(), {Kind::kInput, kInputs - 1}}, {Kind::kTemporary, calls}});

  const auto named = [&](ElementwiseValue& value) {
    const int from_end = calls - value.index;
    if (value.kind == Kind::kTemporary && from_end < 3) value = {Kind::kOutput, 2 - from_end};
  };
  for (ElementwiseCall& call : program.calls) {
    for (ElementwiseValue& value : call.in) named(value);
    named(call.out);
  }
  OpCase c = Program("random", ToString(program), {r.Uniform(dims), r.Uniform(dims), r.Uniform({}, 0.5, 1)}, 1e-5);
  c.in_place = in_place;
  return c;
}

constexpr const char kSilu[] = "t0 = sigmoid(x0); t1 = mul(x0, t0); y0 = mul(t1, x1)";
constexpr const char kSigmoidGrad[] =
    "t0 = neg(x1); t1 = add_scalar(t0) {alpha=1.0}; t2 = mul(x1, t1); y0 = mul(x0, t2)";

// Every op that a program may name, on what its own family has for it, and what reads it.
void AddEveryOp(Random& r, OpCases& cases) {
  OpCases theirs;
  for (const OpFacts& facts : {UnaryOps::Facts(), BinaryOps::Facts(), CastOps::Facts()}) facts.examples(r, theirs);
  for (const OpCase& c : theirs) {
    const auto as_whole = [&](const RefTensor& x) { return IsFloating(x.dtype) && x.dims == c.inputs[0].dims; };
    if (!Ops().Find(c.op)->is_elementwise || !std::all_of(c.inputs.begin(), c.inputs.end(), as_whole)) continue;
    ElementwiseProgram program{{{c.op, c.attrs, {}, {Kind::kOutput, 0}}}, static_cast<int>(c.inputs.size()), 2, 0};
    for (int i = 0; i < program.inputs; ++i) program.calls[0].in.push_back({Kind::kInput, i});
    if (!IsFloating(ElementwiseDType(program.calls[0], c.inputs[0].dtype))) continue;
    program.calls.push_back({"neg", {}, {{Kind::kOutput, 0}}, {Kind::kOutput, 1}});
    cases.push_back(Program(c.op, ToString(program), c.inputs, std::max(c.tolerance, 2e-6)));
  }
}

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back(Program("a gate", kSilu, {r.Uniform({7, 5}), r.Uniform({7, 5})}));
  cases.push_back(Program("a gradient", kSigmoidGrad, {r.Uniform({7, 5}), r.Uniform({7, 5}, 0, 1)}));
  cases.push_back(Program("of three", "t0 = mul(x0, x1); y0 = mul(t0, x2); y1 = tanh(y0)",
                          {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5})}));
  cases.push_back(Program("an output that is read as it was rounded",
                          "y0 = add_scalar(x0) {alpha=256.0}; y1 = add_scalar(y0) {alpha=-256.0}", {r.Uniform({7, 5})},
                          1e-4));
  AddEveryOp(r, cases);
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& dims :
       {Dims{}, Dims{0, 3}, Dims{1}, Dims{37}, Dims{2, 16, 3, 5}, Dims{4096}, Dims{3, 5000}, Dims{41, 1000}}) {
    const RefTensor x = r.Uniform(dims), y = r.Uniform(dims);
    cases.push_back(InPlace(Program("a gate in place", kSilu, {x, y}), 0));
    cases.push_back(InPlace(Program("a gate in place", kSilu, {x, y}), 1));
    cases.push_back(InPlace(
        Program("an output that a later call needs the memory of", "y0 = scale(x0) {alpha=2.0}; y1 = sub(x0, y0)", {x}),
        0));
    cases.push_back(
        Program("types",
                "t0 = cast(x0) {dtype=\"bf16\"}; t1 = scale(t0) {alpha=3.0}; y0 = cast(t1) {dtype=\"f32\"}; "
                "y1 = cast(y0) {dtype=\"f16\"}",
                {x}, 1e-2));
  }
  for (int i = 0; i < 24; ++i) {
    const Dims dims = i % 3 == 0 ? Dims{19, 701} : i % 3 == 1 ? Dims{33} : Dims{2, 16, 5, 7};
    cases.push_back(RandomProgram(r, dims, /*calls=*/3 + i % 7, /*in_place=*/i % 3 - 1));
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"elementwise", Elementwise}};
  facts.wrong_signatures = {{"elementwise", {2}, {"P,B->P"}}};
  facts.without_gradient = {{"elementwise", "made after differentiation"}};
  facts.are_fused = true;
  return facts;
}

}  // namespace ElementwiseOps
}  // namespace oneflow::testing
