// The head of a model of many classes and its loss, by blocks of rows:
//
//   z = x w                                 of the block's rows, f32
//   loss, lse of z;  dz = dloss (exp(z - lse) - [column == label]), rounded to what x is
//   dx = dz w^T,  dw = x^T dz               of the first block; dw += x^T dz of the others, in their order
//
// So logits and their gradient take the memory of a block. Every block but the first reads and writes all of dw beside
// what it multiplies: blocks are of rows enough for the products to take longer than that.
//
// A label that is no class gives a loss of NaN, and a gradient as of no label.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/half.cuh"
#include "kernels/cuda/matmul_cross_entropy.h"
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
  size_t logits_bytes() const { return static_cast<size_t>(RoundUp(block_rows() * n * 4, 256)); }
  // Of floats it lies where the logits were; of 16 bits it has a place of its own, since a row's threads would write
  // what others have not read yet.
  size_t gradient_bytes() const {
    if (dx == nullptr || x.dtype == DType::kFloat32) return 0;
    return static_cast<size_t>(RoundUp(block_rows() * n * 2, 256));
  }
};

// The products of a block; null where there is nothing to multiply, or no gradient.
struct BlockProducts {
  std::unique_ptr<Gemm> logits, dx, first_dw, next_dw;
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
  const uint32_t alignment = std::min(AlignmentOf(head.k, SizeOf(in)), AlignmentOf(head.n, SizeOf(in)));
  const auto make = [&](Product2d p, std::unique_ptr<Gemm>* gemm) {
    p.in = in;
    p.tf32 = head.tf32;
    p.alignment = alignment;
    *gemm = Gemm::Make(p);
    return *gemm != nullptr;
  };
  if (!make({.transpose_b = head.transposed, .m = rows, .n = head.n, .k = head.k}, &products->logits)) return false;
  if (head.dx == nullptr) return true;
  if (!make({.transpose_b = !head.transposed, .m = rows, .n = head.k, .k = head.n, .out = head.dx->dtype},
            &products->dx)) {
    return false;
  }
  // dw[k,n] = x^T dz, or dw[n,k] = dz^T x.
  Product2d dw = {.transpose_a = true, .m = head.transposed ? head.n : head.k, .k = rows};
  dw.n = head.transposed ? head.k : head.n;
  if (first && !make(dw, &products->first_dw)) return false;
  dw.accumulate = true;
  return !next || make(dw, &products->next_dw);
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
  return head.logits_bytes() + head.gradient_bytes() + kGemmWorkspaceBytes;
}

// Of a block's rows.
template <typename T>
struct LossRows {
  int64_t rows, n;
  const float* logits;
  const int32_t* labels;
  float* loss;
  const float* dloss;  // null: no gradient
  T* dz;               // may be the logits' memory: a thread reads an element before it writes it, and no other's
};

template <int kTeam, typename T>
__global__ void LossesKernel(LossRows<T> block) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < block.rows; row += team.stride()) {
    const float* const z = block.logits + row * block.n;
    const int32_t label = block.labels[row];
    const bool is_class = label >= 0 && label < block.n;
    const float of_label = is_class ? z[label] : NAN;  // before it is overwritten
    float top = -INFINITY, sum = 0;
    for (int64_t i = team.member(); i < block.n; i += kTeam) top = MaxOf()(top, z[i]);
    top = Reduce<kTeam>(top, MaxOf());
    for (int64_t i = team.member(); i < block.n; i += kTeam) sum += expf(z[i] - top);
    const float log_sum = logf(Reduce<kTeam>(sum, SumOf()));
    if (team.member() == 0) block.loss[row] = log_sum - (of_label - top);  // before adding top: no cancellation
    if (block.dloss == nullptr) continue;
    const float dloss = block.dloss[row], lse = top + log_sum;
    T* const dz = block.dz + row * block.n;
    for (int64_t i = team.member(); i < block.n; i += kTeam) {
      const float scaled = dloss * expf(z[i] - lse);
      dz[i] = Narrow<T>(i == label ? scaled - dloss : scaled);
    }
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

template <typename T>
const char* RunBlock(const KernelArgs& args, const Head& head, int64_t begin, int64_t rows,
                     const BlockProducts& products) {
  const cudaStream_t stream = Stream(args);
  char* const workspace = static_cast<char*>(args.workspace);
  float* const z = reinterpret_cast<float*>(workspace);
  void* const dz = workspace + (head.gradient_bytes() > 0 ? head.logits_bytes() : 0);
  void* const scratch = workspace + head.logits_bytes() + head.gradient_bytes();
  const T* const x = head.x.as<const T>() + begin * head.k;
  if (const char* error = MultiplyOrClear(products.logits.get(), stream, x, head.w.data, z,
                                          static_cast<size_t>(rows * head.n) * sizeof(float), scratch)) {
    return error;
  }
  const LossRows<T> block = {rows,
                             head.n,
                             z,
                             head.labels + begin,
                             head.loss + begin,
                             head.dloss == nullptr ? nullptr : head.dloss + begin,
                             static_cast<T*>(dz)};
  if (const char* error = Losses<T>(stream, block)) return error;
  if (head.dx == nullptr || head.k == 0) return nullptr;
  char* const dx = head.dx->as<char>() + begin * head.k * static_cast<int64_t>(SizeOf(head.dx->dtype));
  if (const char* error = products.dx->Run(stream, dz, head.w.data, dx, scratch)) return error;
  const Gemm& dw = begin == 0 ? *products.first_dw : *products.next_dw;
  return head.transposed ? dw.Run(stream, dz, x, head.dw->data, scratch)
                         : dw.Run(stream, x, dz, head.dw->data, scratch);
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
