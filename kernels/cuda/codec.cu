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

// How many bits levels have, and rows have room for.
template <int kBits>
struct AllBits {
  __device__ constexpr int used() const { return kBits; }
  __device__ constexpr int room() const { return kBits; }
};
struct SomeBits {
  __device__ int used() const { return *number < 1 ? 1 : *number < most ? *number : most; }
  __device__ int room() const { return most; }
  const int32_t* number;
  int most;
};

// A team takes a row, a thread eight neighbours, whose levels are as many bytes as levels have bits. `Index` counts the
// elements of x.
template <int kTeam, typename Bits, bool kStochastic, typename Index>
__global__ void QuantizeKernel(int64_t rows, int64_t c, StridedLoop<Index, 1> logical, Draw draw, const ActNumbers* act,
                               Bits bits, const float* x, uint8_t* codes, float* ranges) {
  const int used = bits.used();
  const float levels = (1 << used) - 1;
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
    const float unit = (largest - least) / levels + lost;
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
        const uint64_t level = unit > 0 ? static_cast<uint64_t>(at < levels ? at : levels) : 0;
        word |= level << (used * j);
      }
      uint8_t* const to = codes + row * (c / 8) * bits.room() + i / 8 * used;
#pragma unroll
      for (int b = 0; b < used; ++b) to[b] = static_cast<uint8_t>(word >> (8 * b));
    }
    for (int64_t i = c / 8 * used + team.member(); i < c / 8 * bits.room(); i += kTeam) {
      codes[row * (c / 8) * bits.room() + i] = 0;
    }
  }
}

// A thread takes eight neighbours.
template <typename Bits>
__global__ void DequantizeKernel(int64_t n, int64_t c, Bits bits, const uint8_t* codes, const float* ranges, float* y) {
  const int used = bits.used();
#pragma unroll 1
  for (int64_t group = FirstIndex(); group * 8 < n; group += IndexStride()) {
    const int64_t row = group * 8 / c;
    const float least = ranges[2 * row], unit = ranges[2 * row + 1];
    const uint8_t* const from = codes + row * (c / 8) * bits.room() + (group - row * (c / 8)) * used;
    uint64_t word = 0;
#pragma unroll
    for (int b = 0; b < used; ++b) word |= static_cast<uint64_t>(from[b]) << (8 * b);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      y[group * 8 + j] = least + static_cast<float>(word >> (used * j) & ((1 << used) - 1)) * unit;
    }
  }
}

template <bool kStochastic, typename Bits>
const char* QuantizeRows(const KernelArgs& args, Bits bits) {
  const TensorArg& x = args.in[0];
  if (x.count == 0) return nullptr;
  const int64_t c = x.dims[x.rank - 1];
  std::vector<LoopDim<1>> logical;
  const Draw draw = kStochastic ? DrawOf(args, x, &logical) : Draw();
  if (logical.size() > kMaxRank) return "quantize in more than 8 merged dimensions";
  return WithIndex(x.count, [&](auto index) {
    using Index = decltype(index);
    return LaunchRows(args, x.count / c, c, QuantizeKernel<kWarp, Bits, kStochastic, Index>,
                      QuantizeKernel<kThreads, Bits, kStochastic, Index>, StridedLoop<Index, 1>(logical), draw,
                      args.act, bits, x.as<const float>(), args.out[0].as<uint8_t>(), args.out[1].as<float>());
  });
}

template <typename Bits>
const char* QuantizeTo(const KernelArgs& args, Bits bits) {
  return args.attrs->Bool("stochastic") ? QuantizeRows<true>(args, bits) : QuantizeRows<false>(args, bits);
}

template <typename Bits>
const char* DequantizeFrom(const KernelArgs& args, Bits bits) {
  const TensorArg& x = args.out[0];
  if (x.count == 0) return nullptr;
  return Launch({Stream(args), Blocks(x.count, 8 * kThreads)}, DequantizeKernel<Bits>, x.count, x.dims[x.rank - 1],
                bits, args.in[0].as<const uint8_t>(), args.in[1].as<const float>(), x.as<float>());
}

template <size_t... kBits>
const char* WithBits(const KernelArgs& args, bool quantizes, std::index_sequence<kBits...>) {
  using Call = const char* (*)(const KernelArgs&);
  constexpr Call kQuantize[] = {[](const KernelArgs& a) { return QuantizeTo(a, AllBits<kBits + 1>()); }...};
  constexpr Call kDequantize[] = {[](const KernelArgs& a) { return DequantizeFrom(a, AllBits<kBits + 1>()); }...};
  const int64_t bits = args.attrs->Int("bits");
  return (quantizes ? kQuantize : kDequantize)[bits - 1](args);
}

SomeBits SomeBitsOf(const KernelArgs& args, size_t used) {
  return {args.in[used].as<const int32_t>(), static_cast<int>(args.attrs->Int("bits"))};
}

const char* Quantize(const KernelArgs& args) {
  if (args.in.size() > 1) return QuantizeTo(args, SomeBitsOf(args, 1));
  return WithBits(args, true, std::make_index_sequence<8>());
}

const char* Dequantize(const KernelArgs& args) {
  if (args.in.size() > 2) return DequantizeFrom(args, SomeBitsOf(args, 2));
  return WithBits(args, false, std::make_index_sequence<8>());
}

}  // namespace

KernelList CodecKernels() {
  return {{"addends", DType::kFloat32, Addends},
          {"orthonormalize", DType::kFloat32, Orthonormalize, BytesOfSquares},
          {"quantize", DType::kFloat32, Quantize},
          {"dequantize", DType::kUInt8, Dequantize}};
}

}  // namespace oneflow::cuda
