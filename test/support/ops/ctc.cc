// What tests know of ctc_loss: the sum over all sequences of classes by what is left of them, in double precision.
#include <cmath>
#include <map>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::CtcOps {
namespace {

// log(exp(a) + exp(b)).
double LogPlus(double a, double b) {
  const double values[] = {a, b};
  return std::max(a, b) == -kInfinity ? -kInfinity : LogSumExp(values, 2);
}

// One sample of the operands log_probs, labels, input_lengths, label_lengths from input `first` on.
struct Sample {
  Sample(const RefCall& call, size_t first, int64_t i)
      : c(call.in[first].dims[2]),
        steps(static_cast<int64_t>(call.in[first + 2].values[i])),
        log_probs(call.in[first].values.data() + i * call.in[first].dims[1] * c) {
    const int64_t s = call.in[first + 1].dims[1];
    for (int64_t j = 0; j < static_cast<int64_t>(call.in[first + 3].values[i]); ++j) {
      labels.push_back(static_cast<int64_t>(call.in[first + 1].values[i * s + j]));
    }
  }
  // How far a sequence has come: so many labels, and whether its last class is the blank.
  using State = std::pair<size_t, bool>;
  // What the state becomes by one more class; false if it cannot be.
  bool Next(State* state, int64_t k) const {
    const auto [count, blank] = *state;
    if (k == 0) return *state = {count, true}, true;
    if (!blank && count > 0 && labels[count - 1] == k) return true;  // once more
    if (count == labels.size() || labels[count] != k) return false;
    *state = {count + 1, false};
    return true;
  }
  // Logarithms of the sums over the sequences of steps [0, end), by state.
  std::map<State, double> Sums(int64_t end) const {
    std::map<State, double> sums = {{{0, true}, 0.0}};
    for (int64_t t = 0; t < end; ++t) {
      std::map<State, double> next;
      for (const auto& [from, sum] : sums) {
        for (int64_t k = 0; k < c; ++k) {
          State to = from;
          if (!Next(&to, k)) continue;
          const auto [it, is_new] = next.try_emplace(to, -kInfinity);
          it->second = LogPlus(it->second, sum + log_probs[t * c + k]);
        }
      }
      sums = next;
    }
    return sums;
  }
  double LogTotal() const {
    double total = -kInfinity;
    for (const auto& [state, sum] : Sums(steps)) {
      if (state.first == labels.size()) total = LogPlus(total, sum);
    }
    return total;
  }
  // That of sequences that are in this state before step t.
  double Rest(State state, int64_t t, std::map<std::pair<int64_t, State>, double>& known) const {
    if (t == steps) return state.first == labels.size() ? 0 : -kInfinity;
    if (const auto it = known.find({t, state}); it != known.end()) return it->second;
    double total = -kInfinity;
    for (int64_t k = 0; k < c; ++k) {
      State to = state;
      if (Next(&to, k)) total = LogPlus(total, log_probs[t * c + k] + Rest(to, t + 1, known));
    }
    return known[{t, state}] = total;
  }
  int64_t c, steps;
  const double* log_probs;
  std::vector<int64_t> labels;
};

Tensors CtcLoss(RefCall& c) {
  RefTensor loss = Zeros({c.in[0].dims[0]});
  for (int64_t i = 0; i < loss.count(); ++i) {
    const double total = Sample(c, 0, i).LogTotal();
    loss.values[i] = c.attrs.Bool("zero_infinity") && std::isinf(total) ? 0 : 0 - total;
  }
  return {loss};
}

Tensors CtcLossGrad(RefCall& c) {
  RefTensor dx = Zeros(c.in[1].dims);
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    const Sample x(c, 1, i);
    const double total = x.LogTotal();
    double* const to = dx.values.data() + i * dx.dims[1] * x.c;
    std::map<std::pair<int64_t, Sample::State>, double> known;
    for (int64_t t = 0; t < x.steps; ++t) {
      for (int64_t k = 0; k < x.c; ++k) {
        double through = -kInfinity;
        for (const auto& [from, sum] : x.Sums(t)) {
          Sample::State state = from;
          if (x.Next(&state, k))
            through = LogPlus(through, sum + x.log_probs[t * x.c + k] + x.Rest(state, t + 1, known));
        }
        to[t * x.c + k] = -c.in[0].values[i] * std::exp(through - total);
        if (std::isinf(total)) to[t * x.c + k] = c.attrs.Bool("zero_infinity") ? 0 : kNan;
      }
    }
  }
  return {dx};
}

constexpr const char kTypes[] = R"(
ctc_loss(f32[2,5,4] i32[2,3] i32[2] i32[2]) = f32[2]
ctc_loss(f32[2,5,4] i32[2,3] i32[2] i32[2]) {zero_infinity=true} = f32[2]
ctc_loss(f32[2,5,4] i32[3,3] i32[2] i32[2]) ! labels is i32[3,3] but log_probs, which is f32[2,5,4], needs i32[2,3]
ctc_loss(f32[2,5,4] i32[2,3] i32[2] i32[3]) ! label_lengths is i32[3] but log_probs, which is f32[2,5,4], needs i32[2]
ctc_loss(f32[2,5,0] i32[2,3] i32[2] i32[2]) ! log_probs is f32[2,5,0] but must have a class
ctc_loss(bf16[2,5,4] i32[2,3] i32[2] i32[2]) ! log_probs is bf16[2,5,4] but must be f32
ctc_loss_grad(f32[2] f32[2,5,4] i32[2,3] i32[2] i32[2]) = f32[2,5,4]
ctc_loss_grad(f32[3] f32[2,5,4] i32[2,3] i32[2] i32[2]) ! dloss is f32[3] but log_probs, which is f32[2,5,4], needs
    f32[2]
)";

// Samples of up to t steps and s labels; every fourth has other lengths.
void AddPair(Random& r, const std::string& what, int64_t b, int64_t t, int64_t c, int64_t s, bool zero_infinity,
             OpCases& cases) {
  RefTensor labels = r.Integers({b, s}, c - 1), steps = Zeros({b}, DType::kInt32), counts = steps;
  for (double& label : labels.values) label += 1;
  for (int64_t i = 0; i < b; ++i) {
    steps.values[i] = static_cast<double>(t - i % 4);
    counts.values[i] = static_cast<double>(std::max<int64_t>(0, s - i % 3));
  }
  const RefTensor log_probs = r.Uniform({b, t, c}, -4, 0);
  AttrMap attrs;
  if (zero_infinity) attrs.Set("zero_infinity", true);
  cases.push_back({"ctc_loss", what, attrs, {log_probs, labels, steps, counts}});
  cases.push_back({"ctc_loss_grad", what, attrs, {r.Uniform({b}), log_probs, labels, steps, counts}, 1e-5});
}

void AddExamples(Random& r, OpCases& cases) {
  AddPair(r, "small", 5, 9, 4, 3, false, cases);
  AddPair(r, "two labels", 3, 8, 3, 2, true, cases);
}

// Labels that do not fit: more than there are steps, and equal ones without a step for the blank between.
void AddExtremes(Random& r, OpCases& cases) {
  for (const bool zero_infinity : {false, true}) {
    AttrMap attrs = {{"zero_infinity", zero_infinity}};
    Tensors in = {r.Uniform({4, 4, 3}, -4, 0), Zeros({4, 3}, DType::kInt32), Zeros({4}, DType::kInt32),
                  Zeros({4}, DType::kInt32)};
    in[1].values = {1, 2, 1, 1, 1, 1, 2, 2, 2, 1, 2, 2};
    in[2].values = {4, 4, 4, 2};
    in[3].values = {3, 3, 2, 3};
    cases.push_back({"ctc_loss", "labels that do not fit", attrs, in});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  AddExtremes(r, cases);
  for (const bool zero_infinity : {false, true}) AddPair(r, "does not fit", 5, 6, 3, 5, zero_infinity, cases);
  AddPair(r, "long", 3, 60, 6, 20, false, cases);
  AddPair(r, "many", 40, 12, 5, 4, false, cases);
  AddPair(r, "no labels", 3, 5, 3, 0, false, cases);
  AddPair(r, "few steps", 4, 3, 4, 1, true, cases);
  AddPair(r, "no samples", 0, 5, 3, 2, false, cases);
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"ctc_loss", CtcLoss}, {"ctc_loss_grad", CtcLossGrad}};
  // Sequences go on where a shard of the steps ends.
  facts.wrong_signatures = {{"ctc_loss", {2}, {"S(1),B,B,B->P"}}};
  facts.dsl = {{[](Operands d) {
                  return CtcLoss(d.F32({2, 5, 4}), d.I32({2, 3}), d.I32({2}), d.I32({2}));
                },
                "ctc_loss", "f32[2]"}};
  facts.without_gradient = {{"ctc_loss_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::CtcOps
