// dropout: y = keep ? x / (1 - rate) : 0, where each LOGICAL element draws its own bits, so that the result is the same
// however the tensor is cut and the gradient is the same kernel on dy. uniform_like and normal_like draw alike.
#include <algorithm>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/logical_runs.h"
#include "kernels/cpu/normals.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// body(i, n, index) for pieces of the shard x: elements [i, i + n), whose logical indices begin at `index`.
template <typename Body>
void ForRuns(const KernelArgs& args, const TensorArg& x, const Body& body) {
  const LogicalRuns runs(x, args.micro_batch);
  ParallelFor(x.count, Grain(16 * sizeof(float)),
              [&](int64_t begin, int64_t end) {  // arithmetic costs more than memory here
                while (begin < end) {
                  const int64_t n = std::min(end - begin, runs.length - begin % runs.length);
                  body(begin, n, runs.IndexOf(begin));
                  begin += n;
                }
              });
}

template <typename T>
const char* Dropout(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const double rate = args.attrs->Double("rate");
  if (rate <= 0) {
    const int64_t extent[] = {x.count}, stride[] = {1};
    return CopyRegion({x.dtype, extent, x.data, stride, args.out[0].data, stride});
  }
  const RandomStream stream(args);
  const uint32_t threshold = DropThreshold(rate);  // keep iff the upper 24 bits are at least this
  const float scale = KeptScale(rate);
  ForRuns(args, x, [&](int64_t begin, int64_t n, uint64_t index) {
    const T* const from = x.as<const T>() + begin;
    T* const to = args.out[0].as<T>() + begin;
    ForRandomBits(stream.key, stream.step, index, n, [&](int64_t i, U32s bits, auto lanes) OF_INLINED {
      Store(to + i, (bits >> 8) >= threshold ? Load(from + i, lanes) * scale : Splat(0), lanes);
    });
  });
  return nullptr;
}

const char* UniformLike(const KernelArgs& args) {
  const TensorArg& y = args.out[0];
  const RandomStream stream(args);
  ForRuns(args, y, [&](int64_t begin, int64_t n, uint64_t index) {
    float* const to = y.as<float>() + begin;
    ForRandomBits(stream.key, stream.step, index, n,
                  [&](int64_t i, U32s bits, auto lanes) OF_INLINED { Store(to + i, ToUniform(bits), lanes); });
  });
  return nullptr;
}

// Element i takes the bits of elements 2i and 2i + 1.
const char* NormalLike(const KernelArgs& args) {
  const TensorArg& y = args.out[0];
  const RandomStream stream(args);
  ForRuns(args, y, [&](int64_t begin, int64_t n, uint64_t index) {
    constexpr int64_t kNormals = kPhiloxGroup / 2;
    alignas(64) uint32_t bits[kPhiloxGroup];
    float values[kNormals];
    for (int64_t done = 0; done < n;) {
      const int64_t skip = (index + done) & 1;  // a group begins with a block of four words
      GroupBits(stream.key, stream.step, 2 * (index + done - skip), bits);
      for (int64_t at = 0; at < kNormals; at += kLanes) Store(values + at, Normals(bits + 2 * at));
      const int64_t count = std::min(n - done, kNormals - skip);
      std::memcpy(y.as<float>() + begin + done, values + skip, static_cast<size_t>(count) * sizeof(float));
      done += count;
    }
  });
  return nullptr;
}

}  // namespace

KernelList DropoutKernels() {
  return {OF_FLOAT_KERNELS("dropout", Dropout),
          {"uniform_like", DType::kFloat32, UniformLike},
          {"normal_like", DType::kFloat32, NormalLike}};
}

}  // namespace oneflow::cpu
