// What tests know of the elementwise ops of two operands, which NumPy's rules broadcast, and of add_n.
#include <cmath>
#include <limits>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::BinaryOps {
namespace {

// The alphabet of elementwise_functions.h, as far as functions of two operands use it.
double Choose(bool condition, double a, double b) { return condition ? a : b; }

// A row of that file.
struct Function {
  const char* op;
  double (*f)(double, double);
  bool is_linear;                            // in an operand
  Tensor (*call)(Tensor, Tensor, Location);  // the DSL's
};
#define OF_FUNCTION(Name, op, f, linear, elements) \
  {#op, [](double a, double b) -> double { return f; }, sizeof(linear) > 1, ::oneflow::Name},
constexpr Function kFunctions[] = {ONEFLOW_BINARY_FUNCTIONS(OF_FUNCTION)};
#undef OF_FUNCTION

Tensors AddN(RefCall& c) {
  RefTensor y = c.in[0];
  for (size_t i = 1; i < c.in.size(); ++i) {
    for (int64_t j = 0; j < y.count(); ++j) y.values[j] += c.in[i].values[j];
  }
  return {y};
}

constexpr const char kTypes[] = R"(
add(f32[2,3] f32[2,3]) = f32[2,3]
add(f32[2,3] f32[3]) = f32[2,3]
add(f32[2,1] f32[1,3]) = f32[2,3]
add(f32[0,1] f32[1,3]) = f32[0,3]
add(i32[4] i32[]) = i32[4]
add(f32[2,3] f32[2]) ! shapes do not broadcast: a is [2,3], b is [2] (3 against 2)
add(f32[2] i32[2]) ! dtypes differ: a is f32[2], b is i32[2]
add(i32[2] i64[2]) ! dtypes differ: a is i32[2], b is i64[2]
add(u8[2] u8[2]) ! a is u8[2] but must be floating, i32 or i64
add(f32[2]) ! takes 2 inputs (a, b) but is given 1
add(f32[536870912,1] f32[1073741824]) ! the result f32[536870912,1073741824] has more than 2^58 elements
sub(f32[2,3] f32[]) = f32[2,3]
sub(f32[3] f32[2,3]) = f32[2,3]
sub(f32[3] f32[0]) ! shapes do not broadcast: a is [3], b is [0] (3 against 0)
mul(bf16[2,3] bf16[2,1]) = bf16[2,3]
mul(f32[] f32[2]) = f32[2]
mul(f32[2] f32[3]) ! shapes do not broadcast: a is [2], b is [3] (2 against 3)
div(f32[2,3] f32[1,3]) = f32[2,3]
div(f32[3] f32[3]) = f32[3]
div(i32[2] i32[2]) ! a is i32[2] but must be floating
maximum(f32[2,3] f32[3]) = f32[2,3]
maximum(f32[2,3] f32[2,3]) = f32[2,3]
maximum(i32[2] i32[2]) ! a is i32[2] but must be floating
minimum(f32[2,1] f32[1,3]) = f32[2,3]
minimum(f32[2] f32[3]) ! shapes do not broadcast: a is [2], b is [3] (2 against 3)
heaviside(f32[2,3] f32[3]) = f32[2,3]
heaviside(f32[2] bf16[2]) ! dtypes differ: a is f32[2], b is bf16[2]
add_n(f32[2]) = f32[2]
add_n(f32[2] f32[2] f32[2]) = f32[2]
add_n(bf16[2] bf16[2]) = bf16[2]
add_n(f32[2] f32[2]) {out_dtype=bf16} = bf16[2]
add_n() ! takes at least 1 input but is given 0
add_n(f32[2] f32[2] f32[1]) ! input 0 is f32[2], input 2 is f32[1]; they must be the same
)";

constexpr const char kSignatures[] = R"(
add(f32[8,4], f32[4]) | S(0),B->S(0) S(1),S(0)->S(1) P,P->P | - | - | math_binary_broadcast_ops.cpp | so sub; an operand
    without the dimension stays B
mul(f32[8,4], f32[8,1]) | S(0),S(0)->S(0) S(1),B->S(1) P,B->P B,P->P | - | - | math_binary_broadcast_ops.cpp | a
    dimension of one stays B
div(f32[8,4], f32[8,4]) | S(0),S(0)->S(0) S(1),S(1)->S(1) P,B->P | - | - | math_binary_broadcast_ops.cpp | -
maximum(f32[8,4], f32[8,4]) | S(0),S(0)->S(0) S(1),S(1)->S(1) | - | - | math_binary_broadcast_ops.cpp | -
add_n(f32[8,4], f32[8,4], f32[8,4]) | S(0),S(0),S(0)->S(0) S(1),S(1),S(1)->S(1) P,P,P->P | - | - | add_n_op.cpp | -
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const Function& f : kFunctions) {
    for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{{{7, 5}, {7, 5}},
                                                                 {{7, 5}, {5}},
                                                                 {{7, 1}, {3, 1, 5}},
                                                                 {{}, {5}},
                                                                 {{}, {5}},
                                                                 {{}, {}},
                                                                 {{}, {}},
                                                                 {{}, {}}}) {
      cases.push_back({f.op, "small", {}, {r.Uniform(a), r.Uniform(b, 0.5, 2)}});
    }
  }
  cases.push_back({"add_n", "small", {}, {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5})}});
}

void AddEdges(Random& r, OpCases& cases) {
  const std::pair<Dims, Dims> shapes[] = {{{7, 37}, {7, 37}},
                                          {{7, 37}, {37}},
                                          {{7, 37}, {7, 1}},
                                          {{7, 37}, {}},
                                          {{1, 37}, {7, 1}},
                                          {{5}, {4, 3, 5}},
                                          {{4, 1, 5}, {3, 1}},
                                          {{0, 37}, {37}},
                                          {{}, {}},
                                          {{2, 3, 4, 5}, {3, 1, 5}},
                                          {{300, 211}, {300, 211}},
                                          {{300, 211}, {1}},
                                          {{2, 16, 3, 5}, {2, 16, 3, 5}},
                                          {{2, 16, 3, 5}, {}},
                                          {{2, 16, 3, 5}, {5}}};
  for (const auto& [op, f, is_linear, call] : kFunctions) {
    if (!is_linear) continue;
    for (const auto& [a, b] : shapes) {
      const RefTensor divisor = r.Uniform(b, 0.5, 3);  // far from zero, where a quotient has no error bound
      cases.push_back(InPlace({op, "broadcasting", {}, {r.Uniform(a), divisor}}, a == b ? 0 : -1));
    }
    cases.push_back(InPlace({op, "into the second", {}, {r.Uniform({9, 9}), r.Uniform({9, 9}, 0.5, 3)}}, 1));
  }
  for (const auto& [op, f, is_linear, call] : kFunctions) {
    if (is_linear) continue;
    for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{{{7, 37}, {7, 37}},
                                                                 {{7, 37}, {37}},
                                                                 {{7, 37}, {}},
                                                                 {{1, 37}, {7, 1}},
                                                                 {{0, 37}, {37}},
                                                                 {{}, {}},
                                                                 {{2, 16, 3, 5}, {2, 16, 3, 5}}}) {
      cases.push_back(InPlace({op, "ties", {}, {Few(r, a), Few(r, b)}, 0}, a == b ? 0 : -1));
    }
    cases.push_back(InPlace({op, "into the second", {}, {r.Uniform({9, 9}), r.Uniform({9, 9})}, 0}, 1));
    RefTensor a = r.Uniform({37}), b = r.Uniform({37});
    for (const int64_t i : {0, 1, 20, 36}) a.values[i] = kNan;
    for (const int64_t i : {1, 2, 36}) b.values[i] = kNan;
    cases.push_back({op, "NaN", {}, {a, b}, 0});
  }
  for (int64_t n : {1, 2, 5}) {
    OpCase c = InPlace({"add_n", "several operands", {}, {}}, 0);
    for (int64_t i = 0; i < n; ++i) c.inputs.push_back(r.Uniform({11, 7}));
    cases.push_back(c);
  }
  cases.push_back({"add_n", "images", {}, {r.Uniform({2, 16, 3, 5}), r.Uniform({2, 16, 3, 5})}});
  cases.push_back({"add_n", "empty", {}, {r.Uniform({0}), r.Uniform({0})}});
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const auto& [op, f, is_linear, call] : kFunctions) {
    if (is_linear) continue;
    for (const Dims& b : {Dims{7, 5}, Dims{5}}) cases.push_back({op, "ties", {}, {Few(r, {7, 5}), Few(r, b)}});
    cases.push_back({op,
                     "infinities and NaN",
                     {},
                     {With(r.Uniform({7, 5}), {kInfinity, -kInfinity, kInfinity, kNan, 1, kNan}),
                      With(r.Uniform({7, 5}), {1, 1, kInfinity, 1, kNan, kNan})}});
  }
  cases.push_back(
      {"div", "zeros", {}, {With(r.Uniform({7, 5}), {1, 0}), With(r.Uniform({7, 5}, 0.5, 2), {0, 0, kInfinity})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"add_n", AddN}};
  for (const Function& f : kFunctions) facts.reference.emplace_back(f.op, Binary(f.f));
  facts.dsl = {{[](Operands d) {
                  return d.F32({2, 3}) + d.F32({2, 3});
                },
                "add", "f32[2,3]"},
               {[](Operands d) {
                  return d.F32({2, 3}) - d.F32({2, 3});
                },
                "sub", "f32[2,3]"},
               {[](Operands d) {
                  return d.F32({2, 3}) * d.F32({2, 3});
                },
                "mul", "f32[2,3]"}};
  for (const Function& f : kFunctions) {
    facts.dsl.push_back({[call = f.call](Operands d) {
                           return call(d.F32({2, 3}), d.F32({2, 3}), Location::current());
                         },
                         f.op, "f32[2,3]"});
  }
  facts.without_gradient = {{"heaviside", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::BinaryOps
