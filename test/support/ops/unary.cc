// What tests know of the elementwise functions of one tensor, and of the gradients that are ops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::UnaryOps {
namespace {

using Unary = double (*)(double);
ReferenceFn Elementwise(std::function<double(double, const AttrMap&)> f) {
  return [f](RefCall& c) {
    RefTensor y = c.in[0];
    for (double& v : y.values) v = f(v, c.attrs);
    return Tensors{y};
  };
}
ReferenceFn Plain(Unary f) {
  return Elementwise([f](double x, const AttrMap&) { return f(x); });
}

// The alphabet of elementwise_functions.h.
double Exp(double x) { return std::exp(x); }
double Log(double x) { return std::log(x); }
double Log1p(double x) { return std::log1p(x); }
double Sqrt(double x) { return std::sqrt(x); }
double Sin(double x) { return std::sin(x); }
double Cos(double x) { return std::cos(x); }
double Erf(double x) { return std::erf(x); }
double Tanh(double x) { return std::tanh(x); }
double Abs(double x) { return std::fabs(x); }
double Phi(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
double Choose(bool condition, double a, double b) { return condition ? a : b; }

double GeluSlope(double x) { return Phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

// A row of ONEFLOW_GRADIENT_FUNCTIONS.
struct Gradient {
  const char* op;
  double (*f)(double, double);
};
#define OF_GRADIENT(Name, op, f, ...) {#op, [](double dy, double x) -> double { return f; }},
constexpr Gradient kGradients[] = {ONEFLOW_GRADIENT_FUNCTIONS(OF_GRADIENT)};

// A row of elementwise_functions.h.
struct Function {
  const char* op;
  Unary f;
  double low, high;                  // what x is drawn from
  Tensor (*call)(Tensor, Location);  // the DSL's
  bool positive() const { return low > 0; }
};
#define OF_FUNCTION(Name, op, f, dx, precision, low, high) \
  {#op, [](double x) -> double { return f; }, low, high, ::oneflow::Name},
constexpr Function kFunctions[] = {ONEFLOW_UNARY_FUNCTIONS(OF_FUNCTION)};
#undef OF_FUNCTION

constexpr const char kTypes[] = R"(
scale(f32[2]) {alpha=0.5} = f32[2]
scale(f32[2]) {alpha=2} = f32[2]
scale(f32[2]) ! attribute 'alpha' is missing
scale(i32[2]) {alpha=2.0} ! x is i32[2] but must be floating
add_scalar(f32[2]) {alpha=-1.0} = f32[2]
add_scalar(f32[2]) {alpha=[1]} ! attribute 'alpha' is a list of integers but must be a number
neg(f32[2]) = f32[2]
neg(u8[2]) ! x is u8[2] but must be floating, i32 or i64
relu(f32[]) = f32[]
relu(f32[2] f32[2]) ! takes 1 inputs (x) but is given 2
gelu(f16[2,3]) = f16[2,3]
gelu(bool[2]) ! x is bool[2] but must be floating
gelu_grad(f32[2] bf16[2]) ! dtypes differ: dy is f32[2], x is bf16[2]
)";

constexpr const char kSignatures[] = R"(
relu(f32[8,4]) | S(0)->S(0) S(1)->S(1) | - | - | relu_op.cpp | so all unary ops that are not linear
scale(f32[8,4]) {alpha=2.0} | S(0)->S(0) S(1)->S(1) P->P | - | - | scalar_mul_op.cpp | so all linear ones
)";

// Where every element of `x` has a finite result.
RefTensor Draw(Random& r, const Function& f, Dims dims) {
  return f.positive() ? r.Uniform(std::move(dims), f.low / 50, 3 * f.high) : r.Uniform(std::move(dims), f.low, f.high);
}

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"neg", "small", {}, {r.Uniform({7, 5})}});
  for (const Function& f : kFunctions) cases.push_back({f.op, "small", {}, {r.Uniform({7, 5}, f.low, f.high)}});
  for (const char* op : {"scale", "add_scalar"}) {
    cases.push_back({op, "small", {{"alpha", -1.5}}, {r.Uniform({7, 5})}});
  }
  for (const Gradient& g : kGradients) {
    cases.push_back({g.op, "small", {}, {r.Uniform({7, 5}), r.Uniform({7, 5})}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  std::vector<Function> functions(std::begin(kFunctions), std::end(kFunctions));
  functions.push_back({"neg", nullptr, -2, 2, nullptr});
  for (const Function& f : functions) {
    cases.push_back(InPlace({f.op, "odd size", {}, {Draw(r, f, {3, 37})}}, 0));
    cases.push_back({f.op, "empty", {}, {Draw(r, f, {0, 5})}});
    cases.push_back({f.op, "several threads", {}, {Draw(r, f, {300, 211})}});
    cases.push_back(InPlace({f.op, "images", {}, {Draw(r, f, {2, 16, 3, 5})}}, 0));
  }
  cases.push_back({"exp", "from underflow to overflow", {}, {Grid(-87, 88, 20001)}, 5e-7});
  cases.push_back({"tanh", "where it saturates", {}, {Grid(-12, 12, 20001)}, 5e-7});
  cases.push_back({"gelu", "where it saturates", {}, {Grid(-12, 12, 20001)}, 1e-6});
  cases.push_back({"sigmoid", "where it saturates", {}, {Grid(-100, 100, 20001)}, 5e-7});
  for (const Gradient& g : kGradients) {
    const std::string op = g.op;
    cases.push_back(InPlace({op, "odd size", {}, {r.Uniform({7, 31}), r.Uniform({7, 31})}}, 0));
    cases.push_back({op, "empty", {}, {r.Uniform({0}), r.Uniform({0})}});
    if (op != "relu_grad") {
      cases.push_back({op, "where it saturates", {}, {r.Uniform({20001}), Grid(-12, 12, 20001)}, 1e-6});
    }
    cases.push_back({op, "images", {}, {r.Uniform({2, 16, 3, 5}), r.Uniform({2, 16, 3, 5})}});
  }
  cases.push_back({"relu_grad", "NaN", {}, {r.Uniform({37}), With(r.Uniform({37}), {kNan, 0, kNan})}, 0});
  for (const char* op : {"scale", "add_scalar"}) {
    cases.push_back(InPlace({op, "odd size", {{"alpha", -1.75}}, {r.Uniform({3, 37})}}, 0));
    cases.push_back({op, "empty", {{"alpha", 2.0}}, {r.Uniform({0})}});
    cases.push_back({op, "images", {{"alpha", 2.0}}, {r.Uniform({2, 16, 3, 5})}});
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  cases.push_back({"relu", "ties", {}, {Few(r, {7, 5})}});
  cases.push_back({"abs", "ties", {}, {Few(r, {7, 5})}});
  cases.push_back({"tanh", "infinities", {}, {With(r.Uniform({7, 5}, -100, 100), {kInfinity, -kInfinity, 0})}});
  cases.push_back({"exp", "infinities and NaN", {}, {With(r.Uniform({7, 5}), {kInfinity, -kInfinity, kNan, -200})}});
  for (const Function& f : kFunctions) {
    const std::string op = f.op;
    if (f.positive()) {
      cases.push_back({op, "zero and below", {}, {With(r.Uniform({7, 5}, 0.5, 3), {0, kInfinity, kNan, -1})}});
    } else if (op != "exp" && op != "tanh") {  // see above
      cases.push_back(
          {op, "infinities and NaN", {}, {With(r.Uniform({7, 5}, -100, 100), {kInfinity, -kInfinity, kNan, 0})}});
    }
  }
}

// Every function takes floating elements and gives the same.
std::string Types() {
  std::string types = kTypes;
  for (const Function& f : kFunctions) {
    types += absl::StrCat(f.op, "(f32[2]) = f32[2]\n", f.op, "(i32[2]) ! x is i32[2] but must be floating\n");
  }
  for (const Gradient& g : kGradients) {
    types += absl::StrCat(g.op, "(f32[2] f32[2]) = f32[2]\n", g.op,
                          "(f32[2] f32[3]) ! dy is f32[2], x is f32[3]; they must be the same\n");
  }
  return types;
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {
      {"scale", Elementwise([](double x, const AttrMap& attrs) { return attrs.Double("alpha") * x; })},
      {"add_scalar", Elementwise([](double x, const AttrMap& attrs) { return attrs.Double("alpha") + x; })},
      {"neg", Plain([](double x) { return -x; })}};
  for (const Gradient& g : kGradients) facts.reference.emplace_back(g.op, Binary(g.f));
  for (const Function& f : kFunctions) facts.reference.emplace_back(f.op, Plain(f.f));
  // Not linear; copies that differ.
  facts.wrong_signatures = {{"relu", {2}, {"P->P"}}, {"exp", {2}, {"S(0)->B"}}};
  static const std::string* const types = new std::string(Types());
  facts.types = types->c_str();
  facts.dsl = {{[](Operands d) {
                  return Scale(d.F32({2, 3}), 2);
                },
                "scale", "f32[2,3]"},
               {[](Operands d) {
                  return AddScalar(d.F32({2, 3}), 2);
                },
                "add_scalar", "f32[2,3]"},
               {[](Operands d) {
                  return Neg(d.F32({2, 3}));
                },
                "neg", "f32[2,3]"}};
  for (const Function& f : kFunctions) {
    facts.dsl.push_back({[call = f.call](Operands d) {
                           return call(d.F32({2, 3}), Location::current());
                         },
                         f.op, "f32[2,3]"});
  }
  for (const Gradient& g : kGradients) facts.without_gradient.emplace_back(g.op, "a gradient itself");
  return facts;
}

}  // namespace oneflow::testing::UnaryOps
