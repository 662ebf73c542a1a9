// bias_add adds b[n] along one dimension; bias_grad sums all others away. Both see the tensor as [outer, n, inner], or
// in blocks of channels as [outer, n/16, inner, 16]. b and its gradient are f32.
#include <algorithm>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

struct Sides {
  Sides(const TensorArg& x, const AttrMap& attrs) {
    int64_t axis = attrs.Int("axis", -1);
    if (axis < 0) axis += x.rank;
    outer = Product(x, 0, static_cast<int>(axis));
    n = x.dims[axis];
    inner = Product(x, static_cast<int>(axis) + 1, x.rank);
    in_blocks = x.in_blocks();
  }
  int64_t outer, n, inner;
  bool in_blocks;
};

// y = x + b, a block of channels at a time.
template <typename T>
void AddToBlocks(const Sides& s, const T* x, const float* b, T* y) {
  const int64_t blocks = s.n / kBlockChannels, block = s.inner * kBlockChannels;
  ParallelFor(s.outer * blocks, Grain(2 * sizeof(T) * block), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t lane = 0; lane < kBlockChannels; lane += kLanes) {
        const F32s bias = Load(b + row % blocks * kBlockChannels + lane);
        for (int64_t at = row * block + lane; at < (row + 1) * block; at += kBlockChannels) {
          Store(y + at, Load(x + at) + bias);
        }
      }
    }
  });
}

// sums[n] += those of a sample in blocks.
template <typename T>
void AddBlocks(const Sides& s, const T* dy, float* sums) {
  const int64_t block = s.inner * kBlockChannels;
  for (int64_t channel = 0; channel < s.n; channel += kLanes) {
    const T* const from = dy + channel / kBlockChannels * block + channel % kBlockChannels;
    F32s sum = Splat(0);
    for (int64_t at = 0; at < block; at += kBlockChannels) sum += Load(from + at);
    Store(sums + channel, Load(sums + channel) + sum);
  }
}

template <typename T>
const char* BiasAdd(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T* const y = args.out[0].as<T>();
  const Sides s(args.in[0], *args.attrs);
  if (s.in_blocks) {
    AddToBlocks(s, x, b, y);
    return nullptr;
  }
  if (s.inner == 1) {
    ParallelFor(s.outer, Grain(2 * sizeof(T) * s.n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        VecLoop(s.n, [&](int64_t i, auto lanes) {
          Store(y + row * s.n + i, Load(x + row * s.n + i, lanes) + Load(b + i, lanes), lanes);
        });
      }
    });
    return nullptr;
  }
  ParallelFor(s.outer * s.n, Grain(2 * sizeof(T) * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const F32s bias = Splat(b[row % s.n]);
      VecLoop(s.inner, [&](int64_t i, auto lanes) {
        Store(y + row * s.inner + i, Load(x + row * s.inner + i, lanes) + bias, lanes);
      });
    }
  });
  return nullptr;
}

// A reduction over rows of [outer, n, inner] in fixed blocks: block sums in the workspace, then their sum in order.
size_t BiasGradWorkspace(const KernelArgs& args) {
  const Sides s(args.in[0], *args.attrs);
  return static_cast<size_t>(FixedBlocks(s.outer).count * s.n) * sizeof(float);
}

// sums[n] += rows of dy, in order: several in one go, so that the sums are loaded and stored once for all.
template <typename T>
void AddRows(const T* dy, int64_t rows, int64_t n, float* sums) {
  constexpr int64_t kAtOnce = 8;
  for (; rows >= kAtOnce; rows -= kAtOnce, dy += kAtOnce * n) {
    VecLoop(n, [&](int64_t i, auto lanes) {
      F32s sum = Load(sums + i, lanes);
#pragma GCC unroll 8
      for (int64_t row = 0; row < kAtOnce; ++row) sum += Load(dy + row * n + i, lanes);
      Store(sums + i, sum, lanes);
    });
  }
  for (; rows > 0; --rows, dy += n) {
    VecLoop(n, [&](int64_t i, auto lanes) { Store(sums + i, Load(sums + i, lanes) + Load(dy + i, lanes), lanes); });
  }
}

template <typename T>
const char* BiasGrad(const KernelArgs& args) {
  const T* const dy = args.in[0].as<const T>();
  float* const db = args.out[0].as<float>();
  float* const partial = static_cast<float*>(args.workspace);
  const Sides s(args.in[0], *args.attrs);
  const FixedBlocks blocks(s.outer);
  ParallelFor(blocks.count, Grain(sizeof(T) * blocks.size * s.n * s.inner), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* const sums = partial + block * s.n;
      std::fill(sums, sums + s.n, 0.0f);
      if (s.in_blocks) {
        for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
          AddBlocks(s, dy + row * s.n * s.inner, sums);
        }
        continue;
      }
      if (s.inner == 1) {
        AddRows(dy + blocks.begin(block) * s.n, blocks.end(block) - blocks.begin(block), s.n, sums);
        continue;
      }
      for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        const T* const from = dy + row * s.n * s.inner;
        for (int64_t channel = 0; channel < s.n; ++channel) {
          F32s sum = Splat(0);
          VecLoop(s.inner, [&](int64_t i, auto lanes) { sum += Load(from + channel * s.inner + i, lanes); });
          sums[channel] += Sum(sum);
        }
      }
    }
  });
  std::fill(db, db + s.n, 0.0f);
  for (int64_t block = 0; block < blocks.count; ++block) {
    for (int64_t i = 0; i < s.n; ++i) db[i] += partial[block * s.n + i];
  }
  return nullptr;
}

}  // namespace

KernelList BiasKernels() {
  return {OF_FLOAT_KERNELS("bias_add", BiasAdd), OF_FLOAT_KERNELS("bias_grad", BiasGrad, BiasGradWorkspace)};
}

}  // namespace oneflow::cpu
