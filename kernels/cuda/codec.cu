// What edges with a policy compute: addends as rows, orthonormal columns, and rows as levels of few bits.
#include <utility>

#include "kernels/cuda/random_draw.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

// A rank with one row has its own addend there; one with all rows has the whole sum in the first.
const char* Addends(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  if (y.count == 0) return nullptr;
  const size_t own = static_cast<size_t>(x.count) * sizeof(float);
  if (own > 0) {
    const cudaError_t error = cudaMemcpyAsync(y.data, x.data, own, cudaMemcpyDeviceToDevice, Stream(args));
    if (error != cudaSuccess) return ErrorText(error);
  }
  return SetZero(Stream(args), y.as<float>() + x.count, static_cast<size_t>(y.count - x.count) * sizeof(float));
}

// The product of columns i and j, of all threads.
__device__ float ProductOf(const float* q, int64_t n, int64_t r, int64_t i, int64_t j) {
  FloatPair sum = {};
  for (int64_t row = threadIdx.x; row < n; row += kThreads) sum.Add(q[row * r + i] * q[row * r + j]);
  return Reduce<kThreads>(sum, SumOf()).Rounded();
}

// One sweep of Gram-Schmidt by one block, as on the CPU. `before`: squared lengths of the columns, or null for ones.
__device__ void Sweep(float* q, int64_t n, int64_t r, const float* before, float least) {
  for (int64_t i = 0; i < r; ++i) {
    const float square = ProductOf(q, n, r, i, i);
    const bool depends = !(square > least * (before == nullptr ? 1.0f : before[i]));
    const float inverse = depends ? 0.0f : 1.0f / sqrtf(square);
    for (int64_t row = threadIdx.x; row < n; row += kThreads) q[row * r + i] *= inverse;
    for (int64_t j = i + 1; j < r; ++j) {
      const float product = ProductOf(q, n, r, i, j);
      for (int64_t row = threadIdx.x; row < n; row += kThreads) q[row * r + j] -= product * q[row * r + i];
    }
  }
}

__global__ void OrthonormalizeKernel(const float* x, float* q, float* squares, int64_t n, int64_t r) {
  for (int64_t i = threadIdx.x; i < n * r; i += kThreads) q[i] = x[i];
  __syncthreads();
  for (int64_t i = 0; i < r; ++i) {
    const float square = ProductOf(q, n, r, i, i);
    if (threadIdx.x == 0) squares[i] = square;
  }
  __syncthreads();
  Sweep(q, n, r, squares, 1e-12f);
  Sweep(q, n, r, nullptr, 0.25f);
}

size_t BytesOfSquares(const KernelArgs& args) { return static_cast<size_t>(args.in[0].dims[1]) * sizeof(float); }

const char* Orthonormalize(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  return Launch({Stream(args), 1}, OrthonormalizeKernel, x.as<const float>(), args.out[0].as<float>(),
                static_cast<float*>(args.workspace), x.dims[0], x.dims[1]);
}

struct MinOf {
  __device__ float operator()(float a, float b) const { return a < b ? a : b; }
};

// A team takes a row, a thread eight neighbours, whose levels are kBits bytes. `Index` counts the elements of x.
template <int kTeam, int kBits, bool kStochastic, typename Index>
__global__ void QuantizeKernel(int64_t rows, int64_t c, StridedLoop<Index, 1> logical, Draw draw, const ActNumbers* act,
                               const float* x, uint8_t* codes, float* ranges) {
  constexpr float kLevels = (1 << kBits) - 1;
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const from = x + row * c;
    float least = from[0], largest = from[0], lost = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) {
      const float v = from[i];
      least = MinOf()(least, v);
      largest = MaxOf()(largest, v);
      lost += v - v;
    }
    least = Reduce<kTeam>(least, MinOf());
    largest = Reduce<kTeam>(largest, MaxOf());
    lost = Reduce<kTeam>(lost, SumOf());  // 0, or NaN for a row that is not finite
    const float unit = (largest - least) / kLevels + lost;
    if (team.member() == 0) {
      ranges[2 * row] = least + lost;
      ranges[2 * row + 1] = unit;
    }
    for (int64_t i = 8 * team.member(); i < c; i += 8 * kTeam) {
      uint64_t word = 0;
      Philox4 random;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float shift = 0.5f;
        if constexpr (kStochastic) {
          if (j % 4 == 0) {
            const uint64_t index = draw.First(*act) + logical.At(static_cast<Index>(row * c)).of[0] + i + j;
            const uint64_t block = index >> 2;
            random = Philox(draw.key, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                            static_cast<uint32_t>(act->step), static_cast<uint32_t>(act->step >> 32));
          }
          shift = ToUniform(random.x[j % 4]);
        }
        const float at = (from[i + j] - least) / unit + shift;
        const uint64_t level = unit > 0 ? static_cast<uint64_t>(at < kLevels ? at : kLevels) : 0;
        word |= level << (kBits * j);
      }
      uint8_t* const to = codes + (row * c + i) / 8 * kBits;
#pragma unroll
      for (int b = 0; b < kBits; ++b) to[b] = static_cast<uint8_t>(word >> (8 * b));
    }
  }
}

// A thread takes eight neighbours.
template <int kBits>
__global__ void DequantizeKernel(int64_t n, int64_t c, const uint8_t* codes, const float* ranges, float* y) {
#pragma unroll 1
  for (int64_t group = FirstIndex(); group * 8 < n; group += IndexStride()) {
    const int64_t row = group * 8 / c;
    const float least = ranges[2 * row], unit = ranges[2 * row + 1];
    uint64_t word = 0;
#pragma unroll
    for (int b = 0; b < kBits; ++b) word |= static_cast<uint64_t>(codes[group * kBits + b]) << (8 * b);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      y[group * 8 + j] = least + static_cast<float>(word >> (kBits * j) & ((1 << kBits) - 1)) * unit;
    }
  }
}

template <int kBits, bool kStochastic>
const char* QuantizeRows(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const int64_t c = x.dims[x.rank - 1];
  std::vector<LoopDim<1>> logical;
  const Draw draw = kStochastic ? DrawOf(args, x, &logical) : Draw();
  if (logical.size() > kMaxRank) return "quantize in more than 8 merged dimensions";
  return WithIndex(x.count, [&](auto index) {
    using Index = decltype(index);
    return LaunchRows(args, x.count / c, c, QuantizeKernel<kWarp, kBits, kStochastic, Index>,
                      QuantizeKernel<kThreads, kBits, kStochastic, Index>, StridedLoop<Index, 1>(logical), draw,
                      args.act, x.as<const float>(), args.out[0].as<uint8_t>(), args.out[1].as<float>());
  });
}

template <int kBits>
const char* QuantizeTo(const KernelArgs& args) {
  return args.attrs->Bool("stochastic") ? QuantizeRows<kBits, true>(args) : QuantizeRows<kBits, false>(args);
}

template <int kBits>
const char* DequantizeFrom(const KernelArgs& args) {
  const TensorArg& x = args.out[0];
  if (x.count == 0) return nullptr;
  return Launch({Stream(args), Blocks(x.count, 8 * kThreads)}, DequantizeKernel<kBits>, x.count, x.dims[x.rank - 1],
                args.in[0].as<const uint8_t>(), args.in[1].as<const float>(), x.as<float>());
}

template <size_t... kBits>
const char* WithBits(const KernelArgs& args, bool quantizes, std::index_sequence<kBits...>) {
  constexpr KernelFn kQuantize[] = {QuantizeTo<kBits + 1>...}, kDequantize[] = {DequantizeFrom<kBits + 1>...};
  const int64_t bits = args.attrs->Int("bits");
  return (quantizes ? kQuantize : kDequantize)[bits - 1](args);
}

const char* Quantize(const KernelArgs& args) { return WithBits(args, true, std::make_index_sequence<8>()); }
const char* Dequantize(const KernelArgs& args) { return WithBits(args, false, std::make_index_sequence<8>()); }

}  // namespace

KernelList CodecKernels() {
  return {{"addends", DType::kFloat32, Addends},
          {"orthonormalize", DType::kFloat32, Orthonormalize, BytesOfSquares},
          {"quantize", DType::kFloat32, Quantize},
          {"dequantize", DType::kUInt8, Dequantize}};
}

}  // namespace oneflow::cuda
