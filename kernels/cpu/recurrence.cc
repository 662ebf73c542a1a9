// LSTM and GRU: for each step the product of the states before it with w, by sgemm, where the gates are kept, and then
// the units, a vector at a time. The gradient walks back; the gradients of the initial states are what it carries.
#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/recurrence_units.h"

namespace oneflow::cpu {
namespace recurrence {
namespace {

struct Math {
  OF_INLINE static F32s Sigmoid(F32s x) { return SigmoidOf(x); }
  OF_INLINE static F32s Tanh(F32s x) { return TanhOf(x); }
};

// The state of all samples at a step: rows in the sequence, or dense ones.
struct States {
  const float* data;
  int64_t stride;
  const float* row(int64_t sample) const { return data + sample * stride; }
};
// Before a step: of the step before, or the initial one.
States Before(const RecurrenceSizes& s, const float* sequence, const float* initial, int64_t step) {
  if (step == 0) return {initial, s.h};
  return {sequence + s.At(step - 1, 1), s.t * s.h};
}

// gates[:, step, :n h] = states w + bias, in rows of kept*h for each step.
const char* Arrive(const RecurrenceSizes& s, const States& states, const KernelArgs& args, int64_t n, int64_t kept,
                   float* gates) {
  const ProductShape shape = {.batch = 1,
                              .m = s.b,
                              .n = n * s.h,
                              .k = s.h,
                              .transpose_a = false,
                              .transpose_b = false,
                              .row_a = states.stride,
                              .row_c = s.t * kept * s.h};
  return Gemm(shape, states.data, args.in[1].as<const float>(), gates, nullptr, args.in[2].as<const float>());
}

// The gradient of the states before a step: da[:, step, :n h] w^T, to dense rows.
const char* Return(const RecurrenceSizes& s, const float* da, int64_t n, const float* w, bool accumulate,
                   float* dstates) {
  const ProductShape shape = {.batch = 1,
                              .m = s.b,
                              .n = s.h,
                              .k = n * s.h,
                              .transpose_a = false,
                              .transpose_b = true,
                              .row_a = s.t * n * s.h,
                              .accumulate = accumulate};
  return Gemm(shape, da, w, dstates, nullptr);
}

// f(sample, unit, lanes) for the units of all samples, which read and write so many floats each.
template <typename F>
void ForUnits(const RecurrenceSizes& s, int64_t floats, F f) {
  ForRows(s.b, floats * s.h * static_cast<int64_t>(sizeof(float)),
          [&](int64_t sample) { VecLoop(s.h, [&](int64_t unit, auto lanes) OF_INLINED { f(sample, unit, lanes); }); });
}

// in: x, w, bias, h0, c0; out: y, cells, gates.
const char* Lstm(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[0], 4);
  if (s.b * s.h == 0) return nullptr;
  const float* const x = args.in[0].as<const float>();
  float *const y = args.out[0].as<float>(), *const cells = args.out[1].as<float>(),
               *const gates = args.out[2].as<float>();
  for (int64_t step = 0; step < s.t; ++step) {
    const States cells_before = Before(s, cells, args.in[4].as<const float>(), step);
    const char* const error =
        Arrive(s, Before(s, y, args.in[3].as<const float>(), step), args, 4, 4, gates + s.At(step, 4));
    if (error != nullptr) return error;
    ForUnits(s, 16, [&](int64_t sample, int64_t unit, auto lanes) OF_INLINED {
      const int64_t at = sample * s.t * s.h + s.At(step, 1) + unit, of_gates = 4 * (at - unit) + unit;
      const auto arrives = [&](int64_t gate) OF_INLINED {
        return Load(x + of_gates + gate * s.h, lanes) + Load(gates + of_gates + gate * s.h, lanes);
      };
      LstmUnit<Math, F32s> u;
      u.Step(arrives(0), arrives(1), arrives(2), arrives(3), Load(cells_before.row(sample) + unit, lanes));
      Store(gates + of_gates, u.i, lanes);
      Store(gates + of_gates + s.h, u.f, lanes);
      Store(gates + of_gates + 2 * s.h, u.g, lanes);
      Store(gates + of_gates + 3 * s.h, u.o, lanes);
      Store(cells + at, u.cell, lanes);
      Store(y + at, u.y, lanes);
    });
  }
  return nullptr;
}

// in: dy, dcells, gates, cells, w, c0; out: dx, dh0, dc0.
const char* LstmGrad(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[2], 4);
  if (s.b * s.h == 0) return nullptr;
  const auto in = [&](int i) { return args.in[i].as<const float>(); };
  const auto out = [&](int i) { return args.out[i].as<float>(); };
  std::fill(out(1), out(1) + s.b * s.h, 0.0f);
  std::fill(out(2), out(2) + s.b * s.h, 0.0f);
  for (int64_t step = s.t; step-- > 0;) {
    const States before = Before(s, in(3), in(5), step);
    ForUnits(s, 16, [&](int64_t sample, int64_t unit, auto lanes) OF_INLINED {
      const int64_t at = sample * s.t * s.h + s.At(step, 1) + unit, of_gates = 4 * (at - unit) + unit;
      const int64_t state = sample * s.h + unit;
      const auto gate = [&](int64_t i) OF_INLINED { return Load(in(2) + of_gates + i * s.h, lanes); };
      LstmUnit<Math, F32s> u = {gate(0), gate(1), gate(2), gate(3), Load(in(3) + at, lanes), {}};
      u.Gradient(Load(in(0) + at, lanes) + Load(out(1) + state, lanes),
                 Load(in(1) + at, lanes) + Load(out(2) + state, lanes), Load(before.row(sample) + unit, lanes));
      Store(out(0) + of_gates, u.i, lanes);
      Store(out(0) + of_gates + s.h, u.f, lanes);
      Store(out(0) + of_gates + 2 * s.h, u.g, lanes);
      Store(out(0) + of_gates + 3 * s.h, u.o, lanes);
      Store(out(2) + state, u.cell, lanes);
    });
    if (const char* error = Return(s, out(0) + s.At(step, 4), 4, in(4), false, out(1))) return error;
  }
  return nullptr;
}

// in: x, w, bias, h0; out: y, gates, whose last quarter is what the state gives n.
const char* Gru(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[0], 3);
  if (s.b * s.h == 0) return nullptr;
  const float* const x = args.in[0].as<const float>();
  float *const y = args.out[0].as<float>(), *const gates = args.out[1].as<float>();
  for (int64_t step = 0; step < s.t; ++step) {
    const States before = Before(s, y, args.in[3].as<const float>(), step);
    if (const char* error = Arrive(s, before, args, 3, 4, gates + s.At(step, 4))) return error;
    ForUnits(s, 14, [&](int64_t sample, int64_t unit, auto lanes) OF_INLINED {
      const int64_t row = sample * s.t + step;
      const float* const from = x + row * 3 * s.h + unit;
      float* const kept = gates + row * 4 * s.h + unit;
      const auto state = [&](int64_t gate) OF_INLINED { return Load(kept + gate * s.h, lanes); };
      const auto input = [&](int64_t gate) OF_INLINED { return Load(from + gate * s.h, lanes); };
      GruUnit<Math, F32s> u;
      u.Step(input(0) + state(0), input(1) + state(1), input(2), state(2), Load(before.row(sample) + unit, lanes));
      Store(kept, u.r, lanes);
      Store(kept + s.h, u.z, lanes);
      Store(kept + 2 * s.h, u.n, lanes);
      Store(kept + 3 * s.h, u.of_state, lanes);
      Store(y + row * s.h + unit, u.y, lanes);
    });
  }
  return nullptr;
}

// in: dy, gates, y, w, h0; out: dx, da, dh0.
const char* GruGrad(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[1], 4);
  if (s.b * s.h == 0) return nullptr;
  const auto in = [&](int i) { return args.in[i].as<const float>(); };
  const auto out = [&](int i) { return args.out[i].as<float>(); };
  std::fill(out(2), out(2) + s.b * s.h, 0.0f);
  for (int64_t step = s.t; step-- > 0;) {
    const States before = Before(s, in(2), in(4), step);
    ForUnits(s, 16, [&](int64_t sample, int64_t unit, auto lanes) OF_INLINED {
      const int64_t row = sample * s.t + step, at = row * s.h + unit, state = sample * s.h + unit;
      const auto gate = [&](int64_t i) OF_INLINED { return Load(in(1) + (4 * row + i) * s.h + unit, lanes); };
      GruUnit<Math, F32s> u = {gate(0), gate(1), gate(2), gate(3), {}};
      u.Gradient(Load(in(0) + at, lanes) + Load(out(2) + state, lanes), Load(before.row(sample) + unit, lanes));
      for (const int i : {0, 1}) {
        float* const to = out(i) + 3 * row * s.h + unit;
        Store(to, u.r, lanes);
        Store(to + s.h, u.z, lanes);
        Store(to + 2 * s.h, i == 0 ? u.n : u.of_state, lanes);
      }
      Store(out(2) + state, u.y, lanes);
    });
    if (const char* error = Return(s, out(1) + s.At(step, 3), 3, in(3), true, out(2))) return error;
  }
  return nullptr;
}

}  // namespace
}  // namespace recurrence

KernelList RecurrenceKernels() {
  return {{"lstm", DType::kFloat32, recurrence::Lstm},
          {"lstm_grad", DType::kFloat32, recurrence::LstmGrad},
          {"gru", DType::kFloat32, recurrence::Gru},
          {"gru_grad", DType::kFloat32, recurrence::GruGrad}};
}

}  // namespace oneflow::cpu
