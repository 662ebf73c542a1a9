// bias_add adds b[n] along one dimension; bias_grad sums all others away. Both see the tensor as [outer, n, inner], or
// in blocks of channels as [outer, n/16, inner, 16]. b and its gradient are f32. bias_add_tanh adds along the last one.
#include "kernels/cpu/column_sums.h"
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

// in: x, b; out: y = tanh(x + b). y may be x.
template <typename T>
const char* BiasAddTanh(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T* const y = args.out[0].as<T>();
  const int64_t c = Columns(args.in[0]);
  ParallelFor(Rows(args.in[0]), Grain(2 * static_cast<int64_t>(sizeof(T)) * c), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * c; at < end * c; at += c) {
      VecLoop(c, [&](int64_t i, auto lanes) {
        Store(y + at + i, Tanh(Load(x + at + i, lanes) + Load(b + i, lanes)), lanes);
      });
    }
  });
  return nullptr;
}

size_t BiasGradWorkspace(const KernelArgs& args) {
  const Sides s(args.in[0], *args.attrs);
  return ColumnSumsWorkspace(s.outer, s.n);
}

template <typename T>
const char* BiasGrad(const KernelArgs& args) {
  const T* const dy = args.in[0].as<const T>();
  const Sides s(args.in[0], *args.attrs);
  const int64_t row_size = s.n * s.inner;
  const auto add = [&](int64_t begin, int64_t end, float* sums) {
    if (s.inner == 1 && !s.in_blocks) {
      AddColumns(dy + begin * s.n, end - begin, s.n, sums);
      return;
    }
    for (int64_t row = begin; row < end; ++row) {
      const T* const from = dy + row * row_size;
      if (s.in_blocks) {
        AddBlocks(s, from, sums);
        continue;
      }
      for (int64_t channel = 0; channel < s.n; ++channel) {
        F32s sum = Splat(0);
        VecLoop(s.inner, [&](int64_t i, auto lanes) { sum += Load(from + channel * s.inner + i, lanes); });
        sums[channel] += Sum(sum);
      }
    }
  };
  SumColumns<1>(s.outer, s.n, static_cast<int64_t>(sizeof(T)) * row_size, args.workspace, {args.out[0].as<float>()},
                add);
  return nullptr;
}

}  // namespace

KernelList BiasKernels() {
  return {OF_FLOAT_KERNELS("bias_add", BiasAdd), OF_FLOAT_KERNELS("bias_add_tanh", BiasAddTanh),
          OF_FLOAT_KERNELS("bias_grad", BiasGrad, BiasGradWorkspace)};
}

}  // namespace oneflow::cpu
