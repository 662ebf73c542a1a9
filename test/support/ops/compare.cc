// What tests know of comparisons, of logical functions and of where.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::CompareOps {
namespace {

// A row of elementwise_functions.h.
struct Comparison {
  const char* op;
  double (*f)(double, double);
  Tensor (*call)(Tensor, Tensor, Location);  // the DSL's
};
#define OF_COMPARISON(Name, op, f) {#op, [](double a, double b) -> double { return f; }, ::oneflow::Name},
constexpr Comparison kComparisons[] = {ONEFLOW_COMPARISONS(OF_COMPARISON)};
constexpr Comparison kLogical[] = {ONEFLOW_LOGICAL_FUNCTIONS(OF_COMPARISON)};
#undef OF_COMPARISON

ReferenceFn Truth(double (*f)(double, double)) {
  return [f](RefCall& c) {
    Tensors y = Binary(f)(c);
    y[0].dtype = DType::kBool;
    return y;
  };
}

Tensors Where(RefCall& c) {
  RefTensor y = Zeros(BroadcastDims(BroadcastDims(c.in[0].dims, c.in[1].dims), c.in[2].dims), c.in[0].dtype);
  for (int64_t i = 0; i < y.count(); ++i) {
    const Dims at = Unravel(y.dims, i);
    y.values[i] = Broadcast(c.in[Broadcast(c.in[2], at) != 0 ? 0 : 1], at);
  }
  return {y};
}

constexpr const char kTypes[] = R"(
equal(f32[2,3] f32[3]) = bool[2,3]
equal(u8[2] u8[]) = bool[2]
equal(f32[2] i32[2]) ! dtypes differ: a is f32[2], b is i32[2]
not_equal(bool[2] bool[2]) = bool[2]
not_equal(f32[2] f32[3]) ! shapes do not broadcast: a is [2], b is [3] (2 against 3)
less(i64[2,1] i64[3]) = bool[2,3]
less(f32[2]) ! takes 2 inputs (a, b) but is given 1
less_equal(bf16[2] bf16[2]) = bool[2]
less_equal(bf16[2] f32[2]) ! dtypes differ: a is bf16[2], b is f32[2]
greater(f32[] f32[4]) = bool[4]
greater(f32[] i32[4]) ! dtypes differ: a is f32[], b is i32[4]
greater_equal(i32[2] i32[2]) = bool[2]
greater_equal(i32[2] i64[2]) ! dtypes differ: a is i32[2], b is i64[2]
logical_and(bool[2,3] bool[3]) = bool[2,3]
logical_and(i32[2] bool[2]) ! a is i32[2] but must be bool
logical_or(bool[2] bool[]) = bool[2]
logical_or(bool[2] u8[2]) ! b is u8[2] but must be bool
where(f32[2,3] f32[3] bool[2,1]) = f32[2,3]
where(f32[] f32[] bool[4]) = f32[4]
where(i32[2] i32[] bool[]) = i32[2]
where(f32[2] bf16[2] bool[2]) ! dtypes differ: a is f32[2], b is bf16[2]
where(f32[2] f32[2] f32[2]) ! condition is f32[2] but must be bool
where(f32[2] f32[2] bool[3]) ! shapes do not broadcast: a is [3], b is [2] (3 against 2)
)";

constexpr const char kSignatures[] = R"(
less(f32[8,4], f32[4]) | S(0),B->S(0) S(1),S(0)->S(1) | - | - | math_binary_broadcast_ops.cpp | so all comparisons
where(f32[8,4], f32[8,4], bool[8,4]) | S(0),S(0),S(0)->S(0) S(1),S(1),S(1)->S(1) P,P,B->P | - | - | where_op.cpp | -
)";

RefTensor Bools(Random& r, const Dims& dims) { return r.Integers(dims, 2, DType::kBool); }

void AddExamples(Random& r, OpCases& cases) {
  const std::pair<Dims, Dims> shapes[] = {{{7, 5}, {7, 5}}, {{7, 5}, {5}}, {{}, {5}}, {{}, {5}}, {{}, {5}}};
  for (const auto& [a, b] : shapes) {
    for (const Comparison& f : kComparisons) {
      cases.push_back({f.op, "ties", {}, {r.Integers(a, 3), r.Integers(b, 3)}, 0});
    }
    cases.push_back({"where", "small", {}, {r.Uniform(a), r.Uniform(b), Bools(r, b)}});
  }
  for (const auto& [a, b] : {shapes[0], shapes[1]}) {
    for (const Comparison& f : kLogical) cases.push_back({f.op, "small", {}, {Bools(r, a), Bools(r, b)}, 0});
    cases.push_back({"where", "small", {}, {r.Uniform(a), r.Uniform(b), Bools(r, a)}});
  }
  for (const double value : {0, 1}) {  // by one draw a scalar would always be the same
    const RefTensor scalar = Scalar(value, DType::kBool);
    for (const Comparison& f : kLogical) cases.push_back({f.op, "a scalar", {}, {scalar, Bools(r, {5})}, 0});
    for (const Comparison& f : kComparisons) {
      cases.push_back({f.op, "a scalar", {}, {Of(DType::kInt32, Scalar(value)), r.Integers({5}, 3)}, 0});
    }
    cases.push_back({"where", "a scalar", {}, {r.Uniform({}), r.Uniform({5}), scalar}});
  }
  cases.push_back({"where", "a broadcast condition", {}, {r.Uniform({7, 5}), r.Uniform({}), Bools(r, {7, 1})}});
}

void AddEdges(Random& r, OpCases& cases) {
  const std::pair<Dims, Dims> shapes[] = {{{7, 37}, {7, 37}}, {{7, 37}, {37}},   {{1, 37}, {7, 1}},  {{0, 37}, {37}},
                                          {{}, {}},           {{300, 211}, {1}}, {{4, 1, 5}, {3, 1}}};
  for (const auto& [a, b] : shapes) {
    for (const Comparison& f : kComparisons) {
      cases.push_back({f.op, "ties", {}, {Few(r, a), Few(r, b)}, 0});
      for (const DType dtype : kAllDTypes) {
        cases.push_back({f.op, "ties", {}, {Of(dtype, r.Integers(a, 2)), Of(dtype, r.Integers(b, 2))}, 0});
      }
    }
    for (const Comparison& f : kLogical) cases.push_back({f.op, "shapes", {}, {Bools(r, a), Bools(r, b)}, 0});
    for (const DType dtype : kAllDTypes) {
      cases.push_back({"where", "dtypes", {}, {r.Small(a, dtype), r.Small(b, dtype), Bools(r, b)}, 0});
    }
    cases.push_back({"where", "shapes", {}, {r.Uniform(b), r.Uniform(b), Bools(r, a)}, 0});
  }
  for (const int input : {0, 1}) {
    cases.push_back(
        InPlace({"where", "in place", {}, {r.Uniform({9, 9}), r.Uniform({9, 9}), Bools(r, {9, 9})}, 0}, input));
  }
}

// No number compares with a NaN, and where lets none through that was not chosen.
void AddExtremes(Random& r, OpCases& cases) {
  const RefTensor a = With(r.Uniform({7, 5}), {kInfinity, -kInfinity, kInfinity, kNan, 1, kNan});
  const RefTensor b = With(r.Uniform({7, 5}), {1, 1, kInfinity, 1, kNan, kNan});
  for (const Comparison& f : kComparisons) cases.push_back({f.op, "infinities and NaN", {}, {a, b}});
  cases.push_back({"where", "infinities and NaN", {}, {a, b, Bools(r, {7, 5})}});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"where", Where}};
  // What is split in the condition is split in the result.
  facts.wrong_signatures = {{"where", {2}, {"P,P,S(0)->P"}}};
  for (const Comparison& f : kComparisons) {
    facts.reference.emplace_back(f.op, Truth(f.f));
    facts.dsl.push_back({[call = f.call](Operands d) {
                           return call(d.F32({2, 3}), d.F32({3}), Location::current());
                         },
                         f.op, "bool[2,3]"});
    facts.without_gradient.emplace_back(f.op, "gives bools");
  }
  for (const Comparison& f : kLogical) {
    facts.reference.emplace_back(f.op, Truth(f.f));
    facts.without_gradient.emplace_back(f.op, "gives bools");
  }
  facts.dsl.push_back({[](Operands d) { return (d.F32({2}) < 1) & !(d.F32({2}) > 2); }, "logical_and", "bool[2]"});
  facts.dsl.push_back(
      {[](Operands d) { return (d.F32({2}) <= d.F32({2})) | (d.F32({2}) >= 3); }, "logical_or", "bool[2]"});
  facts.dsl.push_back({[](Operands d) { return !(d.I32({2}) > 2); }, "equal", "bool[2]"});
  facts.dsl.push_back({[](Operands d) {
                         return Where(d.F32({2, 1}) < 0, d.F32({2, 3}), d.F32({}));
                       },
                       "where", "f32[2,3]"});
  return facts;
}

}  // namespace oneflow::testing::CompareOps
