// What tests know of recurrences.
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::RecurrenceOps {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A tensor [b,t,n] or [b,n] of values by sample, step and column.
struct Columns3 {
  double& operator()(int64_t sample, int64_t step, int64_t column) {
    const bool has_steps = x.dims.size() == 3;
    const int64_t steps = has_steps ? x.dims[1] : 1, columns = x.dims.back();
    return x.values[(sample * steps + (has_steps ? step : 0)) * columns + column];
  }
  RefTensor& x;
};
// The value before a step: of the sequence, or the initial one.
double Before(RefTensor& sequence, RefTensor& initial, int64_t sample, int64_t step, int64_t unit) {
  return step == 0 ? Columns3{initial}(sample, 0, unit) : Columns3{sequence}(sample, step - 1, unit);
}

// What the states before a step give gate column `to`.
double OfStates(RefCall& c, RefTensor& y, int64_t sample, int64_t step, int64_t to) {
  RefTensor &w = c.in[1], &h0 = c.in[3];
  const int64_t h = w.dims[0], columns = w.dims[1];
  double sum = c.in[2].values[to];
  for (int64_t i = 0; i < h; ++i) sum += Before(y, h0, sample, step, i) * w.values[i * columns + to];
  return sum;
}

// body(sample, step) forward or backward in time.
void ForSteps(const RefTensor& x, bool back, const std::function<void(int64_t, int64_t)>& body) {
  for (int64_t sample = 0; sample < x.dims[0]; ++sample) {
    for (int64_t i = 0; i < x.dims[1]; ++i) body(sample, back ? x.dims[1] - 1 - i : i);
  }
}

Tensors Lstm(RefCall& c) {
  RefTensor& x = c.in[0];
  const int64_t b = x.dims[0], t = x.dims[1], h = x.dims[2] / 4;
  RefTensor y = Zeros({b, t, h}), cells = y, gates = Zeros(x.dims);
  ForSteps(x, false, [&](int64_t n, int64_t step) {
    for (int64_t u = 0; u < h; ++u) {
      double gate[4];
      for (int64_t i = 0; i < 4; ++i) {
        const double a = Columns3{x}(n, step, i * h + u) + OfStates(c, y, n, step, i * h + u);
        Columns3{gates}(n, step, i * h + u) = gate[i] = i == 2 ? std::tanh(a) : Sigmoid(a);
      }
      const double cell = gate[1] * Before(cells, c.in[4], n, step, u) + gate[0] * gate[2];
      Columns3{cells}(n, step, u) = cell;
      Columns3{y}(n, step, u) = gate[3] * std::tanh(cell);
    }
  });
  return {y, cells, gates};
}

// Adds da w^T of a step to the gradient of the states before it.
void Return(RefTensor& da, RefTensor& w, int64_t sample, int64_t step, RefTensor& dstates) {
  for (int64_t i = 0; i < w.dims[0]; ++i) {
    for (int64_t j = 0; j < w.dims[1]; ++j) {
      Columns3{dstates}(sample, 0, i) += Columns3{da}(sample, step, j) * w.values[i * w.dims[1] + j];
    }
  }
}

Tensors LstmGrad(RefCall& c) {
  RefTensor &dy = c.in[0], &dcells = c.in[1], &gates = c.in[2], &cells = c.in[3], &w = c.in[4], &c0 = c.in[5];
  const int64_t h = w.dims[0];
  RefTensor dx = Zeros(gates.dims), dh = Zeros(c0.dims), dc = dh;
  ForSteps(gates, true, [&](int64_t n, int64_t step) {
    for (int64_t u = 0; u < h; ++u) {
      double gate[4];
      for (int64_t i = 0; i < 4; ++i) gate[i] = Columns3{gates}(n, step, i * h + u);
      const double squashed = std::tanh(Columns3{cells}(n, step, u));
      const double of_y = Columns3{dy}(n, step, u) + Columns3{dh}(n, 0, u);
      const double of_cell =
          Columns3{dcells}(n, step, u) + Columns3{dc}(n, 0, u) + of_y * gate[3] * (1 - squashed * squashed);
      const double of_gate[4] = {of_cell * gate[2], of_cell * Before(cells, c0, n, step, u), of_cell * gate[0],
                                 of_y * squashed};
      for (int64_t i = 0; i < 4; ++i) {
        const double slope = i == 2 ? 1 - gate[i] * gate[i] : gate[i] * (1 - gate[i]);
        Columns3{dx}(n, step, i * h + u) = of_gate[i] * slope;
      }
      Columns3{dc}(n, 0, u) = of_cell * gate[1];
      Columns3{dh}(n, 0, u) = 0;
    }
    Return(dx, w, n, step, dh);
  });
  return {dx, dh, dc};
}

Tensors Gru(RefCall& c) {
  RefTensor& x = c.in[0];
  const int64_t b = x.dims[0], t = x.dims[1], h = x.dims[2] / 3;
  RefTensor y = Zeros({b, t, h}), gates = Zeros({b, t, 4 * h});
  ForSteps(x, false, [&](int64_t n, int64_t step) {
    for (int64_t u = 0; u < h; ++u) {
      double at[3], of_state[3];
      for (int64_t i = 0; i < 3; ++i) {
        at[i] = Columns3{x}(n, step, i * h + u);
        of_state[i] = OfStates(c, y, n, step, i * h + u);
      }
      const double r = Sigmoid(at[0] + of_state[0]), z = Sigmoid(at[1] + of_state[1]);
      const double candidate = std::tanh(at[2] + r * of_state[2]);
      const double kept[4] = {r, z, candidate, of_state[2]};
      for (int64_t i = 0; i < 4; ++i) Columns3{gates}(n, step, i * h + u) = kept[i];
      Columns3{y}(n, step, u) = (1 - z) * candidate + z * Before(y, c.in[3], n, step, u);
    }
  });
  return {y, gates};
}

Tensors GruGrad(RefCall& c) {
  RefTensor &dy = c.in[0], &gates = c.in[1], &y = c.in[2], &w = c.in[3], &h0 = c.in[4];
  const int64_t h = w.dims[0];
  RefTensor dx = Zeros({y.dims[0], y.dims[1], 3 * h}), da = dx, dh = Zeros(h0.dims);
  ForSteps(y, true, [&](int64_t n, int64_t step) {
    for (int64_t u = 0; u < h; ++u) {
      double gate[4];
      for (int64_t i = 0; i < 4; ++i) gate[i] = Columns3{gates}(n, step, i * h + u);
      const double r = gate[0], z = gate[1], of_y = Columns3{dy}(n, step, u) + Columns3{dh}(n, 0, u);
      const double of_n = of_y * (1 - z) * (1 - gate[2] * gate[2]);
      const double of_z = of_y * (Before(y, h0, n, step, u) - gate[2]) * z * (1 - z);
      const double of_r = of_n * gate[3] * r * (1 - r);
      const double of_gate[3] = {of_r, of_z, of_n};
      for (int64_t i = 0; i < 3; ++i) {
        Columns3{dx}(n, step, i * h + u) = of_gate[i];
        Columns3{da}(n, step, i * h + u) = i == 2 ? of_n * r : of_gate[i];
      }
      Columns3{dh}(n, 0, u) = of_y * z;
    }
    Return(da, w, n, step, dh);
  });
  return {dx, da, dh};
}

constexpr const char kTypes[] = R"(
lstm(f32[2,5,12] f32[3,12] f32[12] f32[2,3] f32[2,3]) = f32[2,5,3] f32[2,5,3] f32[2,5,12]
lstm(f32[2,5,10] f32[3,12] f32[12] f32[2,3] f32[2,3]) ! x is f32[2,5,10] but must have a step, and columns for 4 gates
    of each unit
lstm(f32[2,0,12] f32[3,12] f32[12] f32[2,3] f32[2,3]) ! x is f32[2,0,12] but must have a step, and columns for 4 gates
    of each unit
lstm(f32[2,5,12] f32[4,12] f32[12] f32[2,3] f32[2,3]) ! w is f32[4,12] but x, which is f32[2,5,12], needs f32[3,12]
lstm(f32[2,5,12] f32[3,12] f32[12] f32[2,3] f32[3,3]) ! c0 is f32[3,3] but x, which is f32[2,5,12], needs f32[2,3]
lstm(bf16[2,5,12] f32[3,12] f32[12] f32[2,3] f32[2,3]) ! x is bf16[2,5,12] but must be f32
lstm_grad(f32[2,5,3] f32[2,5,3] f32[2,5,12] f32[2,5,3] f32[3,12] f32[2,3]) = f32[2,5,12] f32[2,3] f32[2,3]
lstm_grad(f32[2,5,3] f32[2,5,4] f32[2,5,12] f32[2,5,3] f32[3,12] f32[2,3]) ! dcells is f32[2,5,4] but gates, which is
    f32[2,5,12], needs f32[2,5,3]
gru(f32[2,5,9] f32[3,9] f32[9] f32[2,3]) = f32[2,5,3] f32[2,5,12]
gru(f32[2,5,9] f32[3,9] f32[8] f32[2,3]) ! bias is f32[8] but x, which is f32[2,5,9], needs f32[9]
gru_grad(f32[2,5,3] f32[2,5,12] f32[2,5,3] f32[3,9] f32[2,3]) = f32[2,5,9] f32[2,5,9] f32[2,3]
gru_grad(f32[2,5,3] f32[2,5,12] f32[2,5,3] f32[3,12] f32[2,3]) ! w is f32[3,12] but gates, which is f32[2,5,12], needs
    f32[3,9]
)";

// The forward op of `gates` gates, and its gradient on what it gives.
void AddPair(Random& r, const std::string& what, int64_t b, int64_t t, int64_t h, OpCases& cases) {
  const auto state = [&] { return r.Uniform({b, h}, -1, 1); };
  const auto sequence = [&] { return r.Uniform({b, t, h}, -1, 1); };
  const double most = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, h)));
  Tensors in = {Rounded(r.Uniform({b, t, 4 * h})), Rounded(r.Uniform({h, 4 * h}, -most, most)),
                r.Uniform({4 * h}, -1, 1), Rounded(state()), Rounded(state())};
  cases.push_back({"lstm", what, {}, in, 5e-6});
  const Tensors lstm = *Reference("lstm", {}, in);
  cases.push_back({"lstm_grad", what, {}, {sequence(), sequence(), lstm[2], lstm[1], in[1], in[4]}, 2e-5});
  in = {Rounded(r.Uniform({b, t, 3 * h})), Rounded(r.Uniform({h, 3 * h}, -most, most)), r.Uniform({3 * h}, -1, 1),
        Rounded(state())};
  cases.push_back({"gru", what, {}, in, 5e-6});
  const Tensors gru = *Reference("gru", {}, in);
  cases.push_back({"gru_grad", what, {}, {sequence(), gru[1], gru[0], in[1], in[3]}, 2e-5});
}

void AddExamples(Random& r, OpCases& cases) {
  AddPair(r, "small", 5, 4, 3, cases);
  AddPair(r, "one step", 3, 1, 2, cases);
}

void AddEdges(Random& r, OpCases& cases) {
  AddPair(r, "vectors", 3, 7, 32, cases);
  AddPair(r, "odd units", 7, 5, 37, cases);
  AddPair(r, "one of each", 1, 1, 1, cases);
  AddPair(r, "many samples", 200, 3, 20, cases);
  AddPair(r, "no samples", 0, 3, 4, cases);
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"lstm", Lstm}, {"lstm_grad", LstmGrad}, {"gru", Gru}, {"gru_grad", GruGrad}};
  // A unit needs the states of all others.
  facts.wrong_signatures = {{"gru", {2}, {"S(2),S(1),S(0),B->S(2),S(2)"}}};
  facts.dsl = {{[](Operands d) {
                  return Lstm(d.F32({2, 5, 12}), d.F32({3, 12}), d.F32({12}), d.F32({2, 3}), d.F32({2, 3})).cells;
                },
                "lstm", "f32[2,5,3]"},
               {[](Operands d) {
                  return Gru(d.F32({2, 5, 9}), d.F32({3, 9}), d.F32({9}), d.F32({2, 3}));
                },
                "gru", "f32[2,5,3]"}};
  facts.without_gradient = {{"lstm_grad", "a gradient itself"}, {"gru_grad", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::RecurrenceOps
