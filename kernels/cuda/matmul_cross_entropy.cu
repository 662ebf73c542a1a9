// The head of a model of many classes and its loss, by blocks of rows:
//
//   z = x w                                 of the block's rows, f32
//   loss, lse of z;  dz = dloss (exp(z - lse) - [column == label]), rounded to what x is
//   dx = dz w^T,  dw = x^T dz               of the first block; dw += x^T dz of the others, in their order
//
// So logits and their gradient take the memory of a block. Every block but the first reads and writes all of dw beside
// what it multiplies: blocks are of rows enough for the products to take longer than that.
//
// 50257 classes are no multiple of eight, without which the library seems to have no fast products of 16 bits: on an
// H200 this head took 7.4 times its floor where rows of logits began anywhere, and 6.0 times where they began at
// multiples of 256 bytes. So w is copied once, with columns of zeros up to a multiple of 64; logits and their gradient
// have as many columns, in the gradient zeros behind the classes; and the last rows of dw are a product of their own.
// No GPU has timed that yet.
//
// A label that is no class gives a loss of NaN, and a gradient as of no label.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/matmul_cross_entropy.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

// 2048: of 768 numbers a row the products of a block take about three times what its pass over dw takes, at 600 TFLOP/s
// and 3 TB/s; 50,000 classes are 400 MB of logits then. Where classes are few, as many as make 256 tiles of 128x128,
// which is two for each SM.
constexpr int64_t kFewestRows = 2048;
constexpr int64_t kFewestLogits = 256 * 128 * 128;

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// What one of the ops is asked for. in: x, w, labels and, for gradients, dloss; out: loss, dx, dw.
struct Head {
  explicit Head(const KernelArgs& args)
      : x(args.in[0]),
        w(args.in[1]),
        labels(args.in[2].as<const int32_t>()),
        loss(args.out[0].as<float>()),
        transposed(args.attrs->Bool("transpose_b")),
        tf32(args.attrs->Bool("tf32")),
        rows(Rows(x)),
        k(Columns(x)),
        n(w.dims[transposed ? 0 : 1]) {
    if (args.in.size() == 3) return;
    dloss = args.in[3].as<const float>();
    dx = &args.out[1];
    dw = &args.out[2];
  }
  const TensorArg &x, &w;  // w[k,n], w[n,k] if transposed
  const int32_t* labels;
  float* loss;
  bool transposed, tf32;
  int64_t rows, k, n;
  const float* dloss = nullptr;
  const TensorArg *dx = nullptr, *dw = nullptr;  // null: no gradients

  // Of every block but the last, which has what is left.
  int64_t block_rows() const { return std::min(rows, std::max(kFewestRows, kFewestLogits / std::max<int64_t>(1, n))); }
  // Columns of logits: the classes, and zeros behind them.
  bool pads() const { return (x.dtype != DType::kFloat32 || tf32) && n % 8 != 0; }
  int64_t columns() const { return pads() ? RoundUp(n, 64) : n; }
  // Elements from row to row of logits and of their gradient.
  int64_t logits_row() const { return RoundUp(columns(), 256 / static_cast<int64_t>(SizeOf(x.dtype))); }
  size_t logits_bytes() const { return static_cast<size_t>(RoundUp(block_rows() * logits_row() * 4, 256)); }
  // Of floats it lies where the logits were; of 16 bits it has a place of its own, since a row's threads would write
  // what others have not read yet.
  size_t gradient_bytes() const {
    if (dx == nullptr || x.dtype == DType::kFloat32) return 0;
    return static_cast<size_t>(RoundUp(block_rows() * logits_row() * 2, 256));
  }
  // Of the copy of w with columns() columns.
  size_t w_bytes() const {
    return pads() ? static_cast<size_t>(RoundUp(columns() * k * static_cast<int64_t>(SizeOf(w.dtype)), 256)) : 0;
  }
  // Rows of dw that are a product of their own: the last, where w is transposed.
  int64_t last_rows() const { return pads() && transposed ? n % 64 : 0; }
};

// The products of a block; null where there is nothing to multiply, or no gradient.
struct BlockProducts {
  std::unique_ptr<Gemm> logits, dx, first_dw, next_dw;
  std::unique_ptr<Gemm> first_last_dw, next_last_dw;  // of the last rows of dw
};
struct HeadProducts {
  BlockProducts whole, last;  // of `block_rows`, and of what is left
};

uint32_t AlignmentOf(int64_t columns, size_t element) {
  uint32_t alignment = 64;
  while (alignment > element && columns * static_cast<int64_t>(element) % alignment != 0) alignment /= 2;
  return alignment;
}

// False if the library has no algorithm for one of them.
bool MakeProducts(const Head& head, int64_t rows, bool first, bool next, BlockProducts* products) {
  if (rows == 0 || head.n == 0 || head.k == 0) return true;
  const DType in = head.x.dtype;
  const int64_t columns = head.columns();
  const uint32_t of_x = AlignmentOf(head.k, SizeOf(in));
  const uint32_t of_w = head.transposed ? of_x : AlignmentOf(columns, SizeOf(in));
  const auto make = [&](Product2d p, std::unique_ptr<Gemm>* gemm) {
    p.in = in;
    p.tf32 = head.tf32;
    p.alignment = std::min(of_x, of_w);
    *gemm = Gemm::Make(p);
    return *gemm != nullptr;
  };
  const int64_t row = head.logits_row();
  if (!make({.transpose_b = head.transposed, .m = rows, .n = columns, .k = head.k, .c_row = row}, &products->logits)) {
    return false;
  }
  if (head.dx == nullptr) return true;
  if (!make(
          {.transpose_b = !head.transposed, .m = rows, .n = head.k, .k = columns, .a_row = row, .out = head.dx->dtype},
          &products->dx)) {
    return false;
  }
  // dw[k,n] = x^T dz, or dw[n,k] = dz^T x.
  const auto make_dw = [&](int64_t classes, std::unique_ptr<Gemm>* of_first, std::unique_ptr<Gemm>* of_next) {
    if (classes == 0) return true;
    Product2d dw = {.transpose_a = true, .m = head.transposed ? classes : head.k, .k = rows};
    dw.n = head.transposed ? head.k : classes;
    (head.transposed ? dw.a_row : dw.b_row) = row;
    if (first && !make(dw, of_first)) return false;
    dw.accumulate = true;
    return !next || make(dw, of_next);
  };
  const int64_t last_rows = head.last_rows();
  return make_dw(head.n - last_rows, &products->first_dw, &products->next_dw) &&
         make_dw(last_rows, &products->first_last_dw, &products->next_last_dw);
}

std::shared_ptr<void> Prepare(const KernelArgs& args) {
  const Head head(args);
  auto products = std::make_shared<HeadProducts>();
  const int64_t block = head.block_rows();
  if (block == 0) return products;
  const int64_t blocks = head.rows / block, left = head.rows % block;
  const bool made = MakeProducts(head, block, true, blocks > 1, &products->whole) &&
                    MakeProducts(head, left, false, true, &products->last);
  return made ? products : nullptr;
}

size_t Workspace(const KernelArgs& args) {
  const Head head(args);
  return head.logits_bytes() + head.gradient_bytes() + head.w_bytes() + kGemmWorkspaceBytes;
}

// Of a block's rows.
template <typename T>
struct LossRows {
  int64_t rows, n;
  int64_t columns, row;  // of the logits and of dz, n and zeros; elements from row to row
  const float* logits;
  const int32_t* labels;
  float* loss;
  const float* dloss;  // null: no gradient
  T* dz;               // may be the logits' memory: a thread reads an element before it writes it, and no other's
};

// The largest of some numbers, and the sum of exp(x - top) over them, in one pass.
struct ExpSum {
  float top = -INFINITY, sum = 0;
  __device__ void Add(float x) {
    if (x > top) {
      sum = sum * expf(top - x) + 1;
      top = x;
    } else if (x != -INFINITY) {
      sum += expf(x - top);
    }
  }
};

// f(i, four elements) or f(i, one element) for elements i of this thread, of n that begin at a multiple of 16 bytes.
template <int kTeam, typename F>
__device__ void ForOwn(const Team<kTeam>& team, int64_t n, F f) {
  for (int64_t i = 4 * team.member(); i + 4 <= n; i += 4 * kTeam) f.template operator()<4>(i);
  for (int64_t i = n / 4 * 4 + team.member(); i < n; i += kTeam) f.template operator()<1>(i);
}

// Logits are read twice: a row of many classes does not stay in the cache beside those of the other blocks.
template <int kTeam, typename T>
__global__ void LossesKernel(LossRows<T> block) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < block.rows; row += team.stride()) {
    const float* const z = block.logits + row * block.row;
    const int32_t label = block.labels[row];
    const bool is_class = label >= 0 && label < block.n;
    const float of_label = is_class ? z[label] : NAN;  // before it is overwritten
    ExpSum own;
    ForOwn(team, block.n, [&]<int kLanes>(int64_t i) {
      float x[kLanes];
      ReadPack(z + i, x);
      for (int k = 0; k < kLanes; ++k) own.Add(x[k]);
    });
    const float top = Reduce<kTeam>(own.top, MaxOf());
    const float log_sum = logf(Reduce<kTeam>(own.sum * expf(own.top - top), SumOf()));
    if (team.member() == 0) block.loss[row] = log_sum - (of_label - top);  // before adding top: no cancellation
    if (block.dloss == nullptr) continue;
    const float dloss = block.dloss[row], lse = top + log_sum;
    T* const dz = block.dz + row * block.row;
    ForOwn(team, block.n, [&]<int kLanes>(int64_t i) {
      float x[kLanes];
      ReadPack(z + i, x);
      for (int k = 0; k < kLanes; ++k) {
        const float scaled = dloss * expf(x[k] - lse);
        x[k] = i + k == label ? scaled - dloss : scaled;
      }
      WritePack(dz + i, x);
    });
    for (int64_t i = block.n + team.member(); i < block.columns; i += kTeam) dz[i] = Narrow<T>(0.0f);
  }
}

template <typename T>
const char* Losses(cudaStream_t stream, const LossRows<T>& block) {
  if (block.n <= kWarpColumns) {
    return Launch({stream, Blocks(block.rows, kThreads / kWarp)}, LossesKernel<kWarp, T>, block);
  }
  return Launch({stream, Blocks(block.rows, 1)}, LossesKernel<kThreads, T>, block);
}

// The product, or zeros where there is nothing to multiply.
const char* MultiplyOrClear(const Gemm* gemm, cudaStream_t stream, const void* a, const void* b, void* c, size_t bytes,
                            void* workspace) {
  return gemm == nullptr ? SetZero(stream, c, bytes) : gemm->Run(stream, a, b, c, workspace);
}

// w with zeros behind its classes.
const char* CopyWithZeros(cudaStream_t stream, const Head& head, void* to) {
  if (const char* error = SetZero(stream, to, head.w_bytes())) return error;
  const int64_t extent[] = {head.w.dims[0], head.w.dims[1]}, from_stride[] = {head.w.dims[1], 1};
  const int64_t to_stride[] = {head.transposed ? head.k : head.columns(), 1};
  return Copy(stream, {.dtype = head.w.dtype,
                       .extent = extent,
                       .source = head.w.data,
                       .source_stride = from_stride,
                       .target = to,
                       .target_stride = to_stride});
}

template <typename T>
const char* RunBlock(const KernelArgs& args, const Head& head, int64_t begin, int64_t rows,
                     const BlockProducts& products) {
  const cudaStream_t stream = Stream(args);
  char* const workspace = static_cast<char*>(args.workspace);
  float* const z = reinterpret_cast<float*>(workspace);
  void* const dz = workspace + (head.gradient_bytes() > 0 ? head.logits_bytes() : 0);
  char* const own_w = workspace + head.logits_bytes() + head.gradient_bytes();
  const void* const w = head.pads() ? own_w : head.w.data;
  void* const scratch = own_w + head.w_bytes();
  if (begin == 0 && head.pads()) {
    if (const char* error = CopyWithZeros(stream, head, own_w)) return error;
  }
  const T* const x = head.x.as<const T>() + begin * head.k;
  if (const char* error = MultiplyOrClear(products.logits.get(), stream, x, w, z,
                                          static_cast<size_t>(rows * head.logits_row()) * sizeof(float), scratch)) {
    return error;
  }
  const LossRows<T> block = {rows,
                             head.n,
                             head.columns(),
                             head.logits_row(),
                             z,
                             head.labels + begin,
                             head.loss + begin,
                             head.dloss == nullptr ? nullptr : head.dloss + begin,
                             static_cast<T*>(dz)};
  if (const char* error = Losses<T>(stream, block)) return error;
  if (head.dx == nullptr || head.k == 0) return nullptr;
  char* const dx = head.dx->as<char>() + begin * head.k * static_cast<int64_t>(SizeOf(head.dx->dtype));
  if (const char* error = products.dx->Run(stream, dz, w, dx, scratch)) return error;
  const auto add = [&](const Gemm* of_first, const Gemm* of_next, int64_t from) -> const char* {
    const Gemm* const dw = begin == 0 ? of_first : of_next;
    if (dw == nullptr) return nullptr;
    const T* const of_classes = static_cast<const T*>(dz) + from;
    float* const to = head.dw->as<float>() + (head.transposed ? from * head.k : 0);
    return head.transposed ? dw->Run(stream, of_classes, x, to, scratch) : dw->Run(stream, x, of_classes, to, scratch);
  };
  if (const char* error = add(products.first_dw.get(), products.next_dw.get(), 0)) return error;
  return add(products.first_last_dw.get(), products.next_last_dw.get(), head.n - head.last_rows());
}

template <typename T>
const char* Run(const KernelArgs& args) {
  const Head head(args);
  const auto& products = *static_cast<const HeadProducts*>(args.state);
  if (head.rows == 0) {
    const bool has_gradient = head.dw != nullptr;
    return has_gradient ? SetZero(Stream(args), head.dw->data, static_cast<size_t>(head.dw->count) * sizeof(float))
                        : nullptr;
  }
  if (head.n == 0) return "cross entropy: there are no classes";
  const int64_t block = head.block_rows();
  for (int64_t begin = 0; begin < head.rows; begin += block) {
    const int64_t rows = std::min(block, head.rows - begin);
    const char* const error = RunBlock<T>(args, head, begin, rows, rows == block ? products.whole : products.last);
    if (error != nullptr) return error;
  }
  return nullptr;
}

}  // namespace

void AddMatmulCrossEntropy(KernelList& kernels) {
  for (const char* const op : {"matmul_cross_entropy", "matmul_cross_entropy_grad"}) {
    kernels.push_back({op, DType::kFloat32, Run<float>, Workspace, Prepare});
    kernels.push_back({op, DType::kBFloat16, Run<BFloat16>, Workspace, Prepare});
    kernels.push_back({op, DType::kFloat16, Run<Float16>, Workspace, Prepare});
  }
}

}  // namespace oneflow::cuda
