// rotary: pairs of columns of each head are turned by an angle that grows with the position (oneflow_core/rotary.h).
// Angles, cosines and sines are f32; those of a position are computed once for all samples and heads.
#include "oneflow_core/rotary.h"

#include <vector>

#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

struct Turn {
  explicit Turn(const KernelArgs& args)
      : batch(args.in[0].dims[0]),
        tokens(args.in[0].dims[1]),
        columns(args.in[0].dims[2]),
        d(args.in[0].logical_dims[2] / args.attrs->Int("heads", 1)),
        width(args.attrs->Int("width", d)),
        interleaved(args.attrs->Bool("interleaved")),
        back(args.attrs->Bool("back")),
        first(args.in[0].start[1]),
        angles(RotaryAnglesOf(*args.attrs, width, args.in[0].logical_dims[1])) {}
  // cos and sin of a position, one behind the other.
  void Compute(int64_t token, float* cos, float* sin) const {
    const float position = static_cast<float>(first + token);
    VecLoop(width / 2, [&](int64_t i, auto lanes) {
      const QuarterTurns angle = WithoutQuarterTurns(Load(angles.inverse.data() + i, lanes) * position);
      Store(cos + i, SinOfTurns(angle, 1) * angles.amplitude, lanes);
      Store(sin + i, SinOfTurns(angle, 0) * (back ? -angles.amplitude : angles.amplitude), lanes);
    });
  }
  int64_t batch, tokens, columns, d, width;
  bool interleaved, back;
  int64_t first;  // the shard's first position
  RotaryAngles angles;
};

// A head of a position. y may be x's memory.
template <typename T>
void TurnHalves(const Turn& turn, const float* cos, const float* sin, const T* x, T* y) {
  const int64_t half = turn.width / 2;
  VecLoop(half, [&](int64_t i, auto lanes) {
    const F32s x0 = Load(x + i, lanes), x1 = Load(x + half + i, lanes), c = Load(cos + i, lanes),
               s = Load(sin + i, lanes);
    Store(y + i, x0 * c - x1 * s, lanes);
    Store(y + half + i, x1 * c + x0 * s, lanes);
  });
}

template <typename T>
void TurnNeighbours(const Turn& turn, const float* cos, const float* sin, const T* x, T* y) {
  for (int64_t i = 0; i < turn.width / 2; ++i) {
    const float x0 = ToFloat(x[2 * i]), x1 = ToFloat(x[2 * i + 1]);
    FromFloat(x0 * cos[i] - x1 * sin[i], y + 2 * i);
    FromFloat(x1 * cos[i] + x0 * sin[i], y + 2 * i + 1);
  }
}

template <typename T>
const char* Rotary(const KernelArgs& args) {
  if (args.in[0].count == 0) return nullptr;
  const Turn turn(args);
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  ParallelFor(turn.tokens, Grain(2 * sizeof(T) * turn.batch * turn.columns), [&](int64_t begin, int64_t end) {
    std::vector<float> table(turn.width);
    float *const cos = table.data(), *const sin = cos + turn.width / 2;
    for (int64_t token = begin; token < end; ++token) {
      turn.Compute(token, cos, sin);
      for (int64_t sample = 0; sample < turn.batch; ++sample) {
        const int64_t row = (sample * turn.tokens + token) * turn.columns;
        for (int64_t head = row; head < row + turn.columns; head += turn.d) {
          if (turn.interleaved) {
            TurnNeighbours(turn, cos, sin, x + head, y + head);
          } else {
            TurnHalves(turn, cos, sin, x + head, y + head);
          }
          if (y != x) {
            VecLoop(turn.d - turn.width, [&](int64_t i, auto lanes) {
              Store(y + head + turn.width + i, Load(x + head + turn.width + i, lanes), lanes);
            });
          }
        }
      }
    }
  });
  return nullptr;
}

}  // namespace

KernelList RotaryKernels() { return {OF_FLOAT_KERNELS("rotary", Rotary)}; }

}  // namespace oneflow::cpu
