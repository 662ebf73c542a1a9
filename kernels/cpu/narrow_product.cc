#include "kernels/cpu/narrow_product.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/parallel.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace oneflow::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kAlignment = 16;  // floats of a cache line
int64_t Aligned(int64_t floats) { return (floats + kAlignment - 1) / kAlignment * kAlignment; }

bool IsEmpty(const ProductShape& s) { return s.batch == 0 || s.m == 0 || s.n == 0; }

class Widened : public NarrowProduct {
 public:
  Widened(const ProductShape& shape, DType in, DType out) : s_(shape), in_(in), out_(out) {}

  size_t WorkspaceBytes() const override {
    const int64_t sums = out_ == DType::kFloat32 ? 0 : s_.batch * s_.m * s_.n;
    return static_cast<size_t>(SizeA() + SizeB() + Aligned(sums) + GemmWorkspace(s_)) * sizeof(float);
  }

  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    float* const wide_a = static_cast<float*>(workspace);
    float* const wide_b = wide_a + SizeA();
    float* const of_gemm = wide_b + SizeB();
    float* const sums = out_ == DType::kFloat32 ? static_cast<float*>(c) : of_gemm + GemmWorkspace(s_);
    const char* error = ByFloat(in_, [&]<typename T>() {
      Convert(static_cast<const T*>(a), wide_a, s_.batch * s_.m * s_.k);
      if (s_.packed_b) {
        UnpackWeight(b, s_.k, s_.n, wide_b);
      } else {
        Convert(static_cast<const T*>(b), wide_b, s_.batch * s_.k * s_.n);
      }
    });
    for (int64_t i = 0; i < s_.batch && error == nullptr; ++i) {
      error = Gemm(s_, wide_a + i * s_.m * s_.k, wide_b + i * s_.k * s_.n, sums + i * s_.m * s_.n, of_gemm);
    }
    if (error != nullptr || sums == c) return error;
    return ByFloat(out_, [&]<typename T>() { Convert(sums, static_cast<T*>(c), s_.batch * s_.m * s_.n); });
  }

 private:
  int64_t SizeA() const { return Aligned(s_.batch * s_.m * s_.k); }
  int64_t SizeB() const { return Aligned(s_.batch * s_.k * s_.n); }

  const ProductShape s_;
  const DType in_, out_;
};

// Immutable, without threads or memory of its own.
const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type LibraryType(DType dtype) {
  return dtype == DType::kBFloat16  ? memory::data_type::bf16
         : dtype == DType::kFloat16 ? memory::data_type::f16
                                    : memory::data_type::f32;
}

// A batch of [rows, columns] matrices, which lie transposed if `transposed`; `row` is as in ProductShape.
memory::desc Matrices(int64_t batch, int64_t rows, int64_t columns, bool transposed, DType dtype, int64_t row) {
  if (row == 0) row = transposed ? rows : columns;
  const memory::dims strides = {rows * columns, transposed ? 1 : row, transposed ? row : 1};
  return {{batch, rows, columns}, LibraryType(dtype), strides};
}

// A [k, n] matrix in panels of 64 columns, as oneflow_core/packed.h has them. Batches the library does not know so.
memory::desc Panels(int64_t k, int64_t n) { return {{k, n}, memory::data_type::bf16, memory::format_tag::BA16a64b2a}; }
memory::desc Matrix(int64_t rows, int64_t columns, DType dtype, int64_t row) {
  return {{rows, columns}, LibraryType(dtype), memory::dims{row == 0 ? columns : row, 1}};
}

class Library : public NarrowProduct {
 public:
  // Throws dnnl::error if there is no such product.
  Library(const ProductShape& s, DType in, DType out)
      : a_(s.packed_b ? Matrix(s.m, s.k, in, s.row_a) : Matrices(s.batch, s.m, s.k, s.transpose_a, in, s.row_a)),
        b_(s.packed_b ? Panels(s.k, s.n) : Matrices(s.batch, s.k, s.n, s.transpose_b, in, s.row_b)),
        c_(s.packed_b ? Matrix(s.m, s.n, out, s.row_c) : Matrices(s.batch, s.m, s.n, false, out, s.row_c)) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (s.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a_, b_, c_), attributes, CpuEngine());
    const memory::desc scratchpad = desc.scratchpad_desc();
    workspace_bytes_ = scratchpad.get_size();
    product_ = dnnl::matmul(desc);
    for (const auto& [argument, operand] : {std::pair(DNNL_ARG_SRC, a_), std::pair(DNNL_ARG_WEIGHTS, b_),
                                            std::pair(DNNL_ARG_DST, c_), std::pair(DNNL_ARG_SCRATCHPAD, scratchpad)}) {
      operands_.emplace(argument, memory(operand, CpuEngine(), DNNL_MEMORY_NONE));
    }
  }

  size_t WorkspaceBytes() const override { return workspace_bytes_; }

  const char* Run(const void* a, const void* b, void* c, void* workspace) const override {
    try {
      operands_.at(DNNL_ARG_SRC).set_data_handle(const_cast<void*>(a));
      operands_.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<void*>(b));
      operands_.at(DNNL_ARG_DST).set_data_handle(c);
      operands_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(workspace);
      product_.execute(stream_, operands_);
      stream_.wait();
    } catch (const dnnl::error&) {
      return "oneDNN matmul failed";
    }
    return nullptr;
  }

 private:
  const memory::desc a_, b_, c_;
  size_t workspace_bytes_ = 0;
  dnnl::matmul product_;
  // Made once, not at each run, which takes 1 us: of a product of 256 x 128 x 128, a fortieth.
  mutable dnnl::stream stream_{CpuEngine()};
  mutable std::unordered_map<int, memory> operands_;  // by argument; where they lie is said at each run
};

// Than floats: with tiles, or where vdpbf16ps takes as long as one multiply-add of floats, of which it does two.
// Intel's take four times as long.
bool MultipliesBf16Faster() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (isa == dnnl::cpu_isa::avx512_core_amx) return true;
#ifdef __x86_64__
  return isa == dnnl::cpu_isa::avx512_core_bf16 && __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// The bytes from the first element of c to the last.
size_t BytesOfC(const ProductShape& s, DType out) {
  if (IsEmpty(s)) return 0;
  return static_cast<size_t>((s.batch * s.m - 1) * (s.row_c == 0 ? s.n : s.row_c) + s.n) * SizeOf(out);
}

// Of no terms, or of nothing.
class Zeros : public NarrowProduct {
 public:
  explicit Zeros(size_t num_bytes) : num_bytes_(num_bytes) {}
  size_t WorkspaceBytes() const override { return 0; }
  const char* Run(const void*, const void*, void* c, void*) const override {
    FillZero(c, num_bytes_);
    return nullptr;
  }

 private:
  const size_t num_bytes_;
};

}  // namespace

NarrowProduct::Way NarrowProduct::Fastest(DType in) {
  static const bool kIsFaster = MultipliesBf16Faster();
  return kIsFaster && in == DType::kBFloat16 ? Way::kLibrary : Way::kWidened;
}

std::unique_ptr<NarrowProduct> NarrowProduct::Make(const ProductShape& shape, DType in, DType out, Way way) {
  if (IsEmpty(shape) || shape.k == 0) {
    return std::make_unique<Zeros>(shape.accumulate ? 0 : BytesOfC(shape, out));
  }
  if (way == Way::kWidened) return std::make_unique<Widened>(shape, in, out);
  try {
    return std::make_unique<Library>(shape, in, out);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace oneflow::cpu
