// dropout: y = keep ? x / (1 - rate) : 0, where each LOGICAL element draws its own bits, so that the result is the same however the
// tensor is cut and the gradient is the same kernel on dy.
//
// A shard is a sequence of runs that are contiguous in the logical tensor too. One Philox block serves four elements; sixteen
// blocks are computed side by side.
#include <algorithm>
#include <cmath>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"
#include "kernels/random.h"

namespace oneflow::cpu {
namespace {

constexpr int kBlocks = 16;
constexpr int64_t kGroup = 4 * kBlocks;  // elements

// The bits of elements [first, first + kGroup); `first` is a multiple of 4. The same as RandomBits() of each, vectorised by lanes.
void GroupBits(uint64_t key, uint64_t step, uint64_t first, uint32_t* bits) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int lane = 0; lane < kBlocks; ++lane) {
    const uint64_t block = (first >> 2) + lane;
    c0[lane] = static_cast<uint32_t>(block);
    c1[lane] = static_cast<uint32_t>(block >> 32);
    c2[lane] = static_cast<uint32_t>(step);
    c3[lane] = static_cast<uint32_t>(step >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kBlocks; ++lane) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[lane];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2[lane];
      c0[lane] = static_cast<uint32_t>(p1 >> 32) ^ c1[lane] ^ k0;
      c1[lane] = static_cast<uint32_t>(p1);
      c2[lane] = static_cast<uint32_t>(p0 >> 32) ^ c3[lane] ^ k1;
      c3[lane] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int lane = 0; lane < kBlocks; ++lane) {
    bits[4 * lane] = c0[lane];
    bits[4 * lane + 1] = c1[lane];
    bits[4 * lane + 2] = c2[lane];
    bits[4 * lane + 3] = c3[lane];
  }
}

// How a shard's elements lie in the logical tensor: equally long runs, the r-th of which starts at Base(r).
struct Runs {
  explicit Runs(const TensorArg& x) : x(x) {
    outer_rank = x.rank;
    while (outer_rank > 0 && length * x.dims[outer_rank - 1] > 0) {
      length *= x.dims[--outer_rank];
      stride *= x.logical_dims[outer_rank];
      if (x.dims[outer_rank] != x.logical_dims[outer_rank]) break;  // a cut dimension is the outermost of a run
    }
    // The logical index of the shard's first element.
    int64_t dim_stride = 1;
    for (int i = x.rank; i-- > 0;) {
      first += x.start[i] * dim_stride;
      dim_stride *= x.logical_dims[i];
    }
  }
  int64_t Base(int64_t run) const {
    int64_t base = first, dim_stride = stride;
    for (int i = outer_rank; i-- > 0;) {
      base += run % x.dims[i] * dim_stride;
      run /= x.dims[i];
      dim_stride *= x.logical_dims[i];
    }
    return base;
  }
  const TensorArg& x;
  int outer_rank;      // dimensions that are not part of a run
  int64_t length = 1;  // of a run
  int64_t stride = 1;  // logical elements per step of dimension outer_rank - 1
  int64_t first = 0;
};

struct Draw {
  uint64_t key, step;
  uint32_t threshold;  // keep iff the upper 24 bits are at least this
  float scale;

  // Elements [0, n) whose logical indices begin at `index`.
  void Apply(const float* x, float* y, int64_t n, uint64_t index) const {
    alignas(64) uint32_t bits[kGroup];
    for (int64_t done = 0; done < n;) {
      const int64_t skip = (index + done) & 3;  // a run may begin inside a block
      GroupBits(key, step, index + done - skip, bits);
      const int64_t count = std::min(n - done, kGroup - skip);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        y[done + i] = (bits[skip + i] >> 8) >= threshold ? x[done + i] * scale : 0.0f;
      }
      done += count;
    }
  }
};

const char* Dropout(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const double rate = args.attrs->Double("rate");
  if (rate <= 0) {
    const int64_t extent[] = {x.count}, stride[] = {1};
    return CopyRegion({x.dtype, extent, x.data, stride, args.out[0].data, stride});
  }
  const Draw draw = {
      RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key"))),
      static_cast<uint64_t>(args.step),
      // ToUniform(bits) >= rate, as integers.
      static_cast<uint32_t>(std::ceil(static_cast<double>(static_cast<float>(rate)) * 16777216.0)),
      rate < 1 ? static_cast<float>(1 / (1 - rate)) : 0.0f};
  int64_t logical_count = 1;
  for (int i = 0; i < x.rank; ++i) logical_count *= x.logical_dims[i];
  const int64_t shift = args.micro_batch * logical_count;
  const Runs runs(x);
  ParallelFor(x.count, Grain(16 * sizeof(float)),
              [&](int64_t begin, int64_t end) {  // arithmetic costs more than memory here
                while (begin < end) {
                  const int64_t run = begin / runs.length, offset = begin % runs.length;
                  const int64_t n = std::min(end - begin, runs.length - offset);
                  draw.Apply(x.as<const float>() + begin, args.out[0].as<float>() + begin, n,
                             static_cast<uint64_t>(shift + runs.Base(run) + offset));
                  begin += n;
                }
              });
  return nullptr;
}

}  // namespace

KernelList DropoutKernels() { return {{"dropout", DType::kFloat32, Dropout}}; }

}  // namespace oneflow::cpu
