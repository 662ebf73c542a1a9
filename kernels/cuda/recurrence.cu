// LSTM and GRU: for each step the product of the states before it with w, by cuBLASLt, and then a thread for each unit
// of each sample. The library's products are of dense matrices, so states, what they give the gates, and gradients of
// both are dense beside the sequences, in the workspace. The gradient walks back; the gradients of the initial states
// are what it carries.
#include <memory>

#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/loops.cuh"
#include "kernels/recurrence_units.h"

namespace oneflow::cuda {
namespace recurrence {
namespace {

struct Math {
  __device__ static float Sigmoid(float x) { return SigmoidOf(x); }
  __device__ static float Tanh(float x) { return TanhOf(x); }
};

// Where the elements of a unit lie at one step.
struct Place {
  __device__ Place(const RecurrenceSizes& s, int64_t step, int64_t sample, int64_t unit)
      : h(s.h), state(sample * s.h + unit), first(step == 0), row(sample * s.t + step), unit(unit) {}
  // In [b,t,n h].
  __device__ int64_t At(int64_t n, int64_t gate) const { return (row * n + gate) * h + unit; }
  // In [b,n h].
  __device__ int64_t Dense(int64_t n, int64_t gate) const { return (state - unit) * n + gate * h + unit; }
  // The value before this step of a sequence [b,t,h] that begins with `initial`.
  __device__ float Before(const float* sequence, const float* initial) const {
    return first ? initial[state] : sequence[At(1, 0) - h];
  }
  int64_t h, state;
  bool first;
  int64_t row, unit;
};

struct LstmForward {
  __device__ void operator()(int64_t, int64_t sample, int64_t unit) const {
    const Place at(s, step, sample, unit);
    const auto arrives = [&](int64_t gate) {
      return x[at.At(4, gate)] + arrived[at.Dense(4, gate)] + bias[gate * s.h + unit];
    };
    LstmUnit<Math, float> u;
    u.Step(arrives(0), arrives(1), arrives(2), arrives(3), at.Before(cells, c0));
    gates[at.At(4, 0)] = u.i;
    gates[at.At(4, 1)] = u.f;
    gates[at.At(4, 2)] = u.g;
    gates[at.At(4, 3)] = u.o;
    cells[at.At(1, 0)] = u.cell;
    y[at.At(1, 0)] = state[at.state] = u.y;
  }
  RecurrenceSizes s;
  int64_t step;
  const float *x, *bias, *c0, *arrived;
  float *y, *cells, *gates, *state;
};

struct LstmBackward {
  __device__ void operator()(int64_t, int64_t sample, int64_t unit) const {
    const Place at(s, step, sample, unit);
    const auto gate = [&](int64_t i) { return gates[at.At(4, i)]; };
    LstmUnit<Math, float> u = {gate(0), gate(1), gate(2), gate(3), cells[at.At(1, 0)], 0};
    u.Gradient(dy[at.At(1, 0)] + dh[at.state], dcells[at.At(1, 0)] + dc[at.state], at.Before(cells, c0));
    dx[at.At(4, 0)] = da[at.Dense(4, 0)] = u.i;
    dx[at.At(4, 1)] = da[at.Dense(4, 1)] = u.f;
    dx[at.At(4, 2)] = da[at.Dense(4, 2)] = u.g;
    dx[at.At(4, 3)] = da[at.Dense(4, 3)] = u.o;
    dc[at.state] = u.cell;
  }
  RecurrenceSizes s;
  int64_t step;
  const float *dy, *dcells, *gates, *cells, *c0, *dh;
  float *dx, *dc, *da;
};

struct GruForward {
  __device__ void operator()(int64_t, int64_t sample, int64_t unit) const {
    const Place at(s, step, sample, unit);
    const auto of_state = [&](int64_t gate) { return arrived[at.Dense(3, gate)] + bias[gate * s.h + unit]; };
    GruUnit<Math, float> u;
    u.Step(x[at.At(3, 0)] + of_state(0), x[at.At(3, 1)] + of_state(1), x[at.At(3, 2)], of_state(2), at.Before(y, h0));
    gates[at.At(4, 0)] = u.r;
    gates[at.At(4, 1)] = u.z;
    gates[at.At(4, 2)] = u.n;
    gates[at.At(4, 3)] = u.of_state;
    y[at.At(1, 0)] = state[at.state] = u.y;
  }
  RecurrenceSizes s;
  int64_t step;
  const float *x, *bias, *h0, *arrived;
  float *y, *gates, *state;
};

struct GruBackward {
  __device__ void operator()(int64_t, int64_t sample, int64_t unit) const {
    const Place at(s, step, sample, unit);
    const auto gate = [&](int64_t i) { return gates[at.At(4, i)]; };
    GruUnit<Math, float> u = {gate(0), gate(1), gate(2), gate(3), 0};
    u.Gradient(dy[at.At(1, 0)] + dh[at.state], at.Before(y, h0));
    dx[at.At(3, 0)] = das[at.At(3, 0)] = da[at.Dense(3, 0)] = u.r;
    dx[at.At(3, 1)] = das[at.At(3, 1)] = da[at.Dense(3, 1)] = u.z;
    dx[at.At(3, 2)] = u.n;
    das[at.At(3, 2)] = da[at.Dense(3, 2)] = u.of_state;
    dh[at.state] = u.y;
  }
  RecurrenceSizes s;
  int64_t step;
  const float *dy, *gates, *y, *h0;
  float *dx, *das, *dh, *da;
};

// The product of a step; null: there is nothing to multiply.
struct Prepared {
  std::unique_ptr<Gemm> product;
};

constexpr size_t kAlignment = 256;
size_t Aligned(int64_t floats) {
  return (static_cast<size_t>(floats) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
}

// Scratch memory: the library's, then dense states [b,h] and gates [b,n h].
struct Scratch {
  Scratch(const KernelArgs& args, const RecurrenceSizes& s) {
    char* const memory = static_cast<char*>(args.workspace);
    library = memory;
    states = reinterpret_cast<float*>(memory + (kGemmWorkspaceBytes + kAlignment - 1) / kAlignment * kAlignment);
    gates = reinterpret_cast<float*>(reinterpret_cast<char*>(states) + Aligned(s.b * s.h));
  }
  static size_t Bytes(const RecurrenceSizes& s, int64_t n) {
    return kGemmWorkspaceBytes + kAlignment + Aligned(s.b * s.h) + Aligned(s.b * n * s.h);
  }
  void* library;
  float *states, *gates;
};

// Of the op of n gates whose sizes are those of input kSizes with kColumns gates.
template <int kSizes, int kColumns, int kGates>
size_t Workspace(const KernelArgs& args) {
  return Scratch::Bytes(RecurrenceSizes(args.in[kSizes], kColumns), kGates);
}

std::shared_ptr<void> PrepareProduct(const KernelArgs& args, Product2d product) {
  auto prepared = std::make_shared<Prepared>();
  product.tf32 = args.attrs->Bool("tf32");
  if (product.m * product.n * product.k == 0) return prepared;
  prepared->product = Gemm::Make(product);
  return prepared->product == nullptr ? nullptr : prepared;
}

// gates[b,n h] = states[b,h] w[h,n h].
template <int kGates>
std::shared_ptr<void> PrepareForward(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[0], kGates);
  return PrepareProduct(args, {.m = s.b, .n = kGates * s.h, .k = s.h});
}
// dstates[b,h] = da[b,n h] w[h,n h]^T.
template <int kSizes, int kGates, bool kAdds>
std::shared_ptr<void> PrepareBackward(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[kSizes], 4);
  return PrepareProduct(args, {.transpose_b = true, .m = s.b, .n = s.h, .k = kGates * s.h, .accumulate = kAdds});
}

const Gemm& ProductOf(const KernelArgs& args) { return *static_cast<const Prepared*>(args.state)->product; }

// For each step the product of the states, first of `initial`, and then the units, which `of_step` makes.
template <typename F>
const char* Forward(const KernelArgs& args, const RecurrenceSizes& s, const Scratch& scratch, F of_step) {
  for (int64_t step = 0; step < s.t; ++step) {
    const void* const states = step == 0 ? args.in[3].data : scratch.states;
    const char* error = ProductOf(args).Run(Stream(args), states, args.in[1].data, scratch.gates, scratch.library);
    if (error == nullptr) error = ForEach(Stream(args), {s.b, s.h}, of_step(step));
    if (error != nullptr) return error;
  }
  return nullptr;
}

// The other way: the units of each step, and then the gradient of the states before it.
template <typename F>
const char* Backward(const KernelArgs& args, const RecurrenceSizes& s, const Scratch& scratch, const void* w, float* dh,
                     F of_step) {
  for (int64_t step = s.t; step-- > 0;) {
    const char* error = ForEach(Stream(args), {s.b, s.h}, of_step(step));
    if (error == nullptr) error = ProductOf(args).Run(Stream(args), scratch.gates, w, dh, scratch.library);
    if (error != nullptr) return error;
  }
  return nullptr;
}

// in: x, w, bias, h0, c0; out: y, cells, gates.
const char* Lstm(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[0], 4);
  if (s.b * s.h == 0) return nullptr;
  const Scratch scratch(args, s);
  const auto in = [&](int i) { return args.in[i].as<const float>(); };
  const auto out = [&](int i) { return args.out[i].as<float>(); };
  return Forward(args, s, scratch, [&](int64_t step) {
    return LstmForward{s, step, in(0), in(2), in(4), scratch.gates, out(0), out(1), out(2), scratch.states};
  });
}

// in: dy, dcells, gates, cells, w, c0; out: dx, dh0, dc0.
const char* LstmGrad(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[2], 4);
  if (s.b * s.h == 0) return nullptr;
  const Scratch scratch(args, s);
  const auto in = [&](int i) { return args.in[i].as<const float>(); };
  const auto out = [&](int i) { return args.out[i].as<float>(); };
  for (const int i : {1, 2}) {
    if (const char* error = SetZero(Stream(args), out(i), s.b * s.h * sizeof(float))) return error;
  }
  return Backward(args, s, scratch, in(4), out(1), [&](int64_t step) {
    return LstmBackward{s, step, in(0), in(1), in(2), in(3), in(5), out(1), out(0), out(2), scratch.gates};
  });
}

// in: x, w, bias, h0; out: y, gates, whose last quarter is what the state gives n.
const char* Gru(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[0], 3);
  if (s.b * s.h == 0) return nullptr;
  const Scratch scratch(args, s);
  const auto in = [&](int i) { return args.in[i].as<const float>(); };
  const auto out = [&](int i) { return args.out[i].as<float>(); };
  return Forward(args, s, scratch, [&](int64_t step) {
    return GruForward{s, step, in(0), in(2), in(3), scratch.gates, out(0), out(1), scratch.states};
  });
}

// in: dy, gates, y, w, h0; out: dx, da, dh0.
const char* GruGrad(const KernelArgs& args) {
  const RecurrenceSizes s(args.in[1], 4);
  if (s.b * s.h == 0) return nullptr;
  const Scratch scratch(args, s);
  const auto in = [&](int i) { return args.in[i].as<const float>(); };
  const auto out = [&](int i) { return args.out[i].as<float>(); };
  if (const char* error = SetZero(Stream(args), out(2), s.b * s.h * sizeof(float))) return error;
  return Backward(args, s, scratch, in(3), out(2), [&](int64_t step) {
    return GruBackward{s, step, in(0), in(1), in(2), in(4), out(0), out(1), out(2), scratch.gates};
  });
}

}  // namespace
}  // namespace recurrence

KernelList RecurrenceKernels() {
  return {{"lstm", DType::kFloat32, recurrence::Lstm, recurrence::Workspace<0, 4, 4>, recurrence::PrepareForward<4>},
          {"lstm_grad", DType::kFloat32, recurrence::LstmGrad, recurrence::Workspace<2, 4, 4>,
           recurrence::PrepareBackward<2, 4, false>},
          {"gru", DType::kFloat32, recurrence::Gru, recurrence::Workspace<0, 3, 3>, recurrence::PrepareForward<3>},
          {"gru_grad", DType::kFloat32, recurrence::GruGrad, recurrence::Workspace<1, 4, 3>,
           recurrence::PrepareBackward<1, 3, true>}};
}

}  // namespace oneflow::cuda
