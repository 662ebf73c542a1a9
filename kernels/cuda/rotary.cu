// rotary: pairs of columns of each head are turned by an angle that grows with the position (oneflow_core/rotary.h), a
// thread per pair.
#include "kernels/cuda/division.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/launch.cuh"
#include "oneflow_core/rotary.h"

namespace oneflow::cuda {
namespace {

constexpr int kMostPairs = 256;

// A parameter of the kernel.
struct Turn {
  Divisor<uint64_t> slots;   // of a head: its pairs, then a slot for each column that stays
  Divisor<uint64_t> heads;   // of a position
  Divisor<uint64_t> tokens;  // of a sample
  int64_t d, pairs, first;
  bool interleaved;
  float cos_factor, sin_factor;
  float inverse[kMostPairs];
};

template <typename T>
__global__ void TurnPairs(Turn turn, int64_t count, const T* x, T* y) {
  for (int64_t at = FirstIndex(); at < count; at += IndexStride()) {
    const auto [row, slot] = turn.slots.Divide(at);
    const int64_t head = static_cast<int64_t>(row) * turn.d, i = static_cast<int64_t>(slot);
    if (i >= turn.pairs) {
      y[head + turn.pairs + i] = x[head + turn.pairs + i];
      continue;
    }
    const auto token = turn.tokens.Divide(turn.heads.Divide(row).quotient).remainder;
    float sin, cos;
    sincosf(static_cast<float>(turn.first + static_cast<int64_t>(token)) * turn.inverse[i], &sin, &cos);
    cos *= turn.cos_factor;
    sin *= turn.sin_factor;
    const int64_t i0 = head + (turn.interleaved ? 2 * i : i), i1 = turn.interleaved ? i0 + 1 : i0 + turn.pairs;
    const float x0 = Widen(x[i0]), x1 = Widen(x[i1]);
    y[i0] = Narrow<T>(x0 * cos - x1 * sin);
    y[i1] = Narrow<T>(x1 * cos + x0 * sin);
  }
}

template <typename T>
const char* Rotary(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const int64_t d = x.logical_dims[2] / args.attrs->Int("heads", 1), width = args.attrs->Int("width", d);
  if (width / 2 > kMostPairs) return "rotary: heads of more than 512 columns are turned";
  const RotaryAngles angles = RotaryAnglesOf(*args.attrs, width, x.logical_dims[1]);
  Turn turn = {Divisor<uint64_t>(d - width / 2),
               Divisor<uint64_t>(x.dims[2] / d),
               Divisor<uint64_t>(x.dims[1]),
               d,
               width / 2,
               x.start[1],
               args.attrs->Bool("interleaved"),
               angles.amplitude,
               args.attrs->Bool("back") ? -angles.amplitude : angles.amplitude,
               {}};
  for (int64_t i = 0; i < width / 2; ++i) turn.inverse[i] = angles.inverse[i];
  const int64_t count = x.count / d * (d - width / 2);
  return Launch({Stream(args), Blocks(count)}, TurnPairs<T>, turn, count, x.as<const T>(), args.out[0].as<T>());
}

}  // namespace

KernelList RotaryKernels() { return {OF_FLOAT_KERNELS("rotary", Rotary)}; }

}  // namespace oneflow::cuda
