// matmul_cross_entropy: for each row of x the softmax cross entropy of its logits z = x w, and, where gradients are
// asked for, dx and dw of the sum of dloss * loss. Logits of all rows are never there: of a block of rows they are
// computed into the workspace, and become losses and their own gradient, which two products read.
//
//   for each block of rows:   z = x w     loss, dz = f(z, labels, dloss)     dx = dz w^T     dw += x^T dz
//
// How many rows are a block is a matter of dw, of which every block but the first reads and writes all, and of w, which
// products pack anew: 24 bytes of each number of w, on which a row spends 6 operations, whatever the sizes. Products of
// GPT-2's head (1,024 rows of 768, 50,257 classes) take two threads of a Zen 4, by blocks of 128, 256, 512 and 1,024
// rows, 2.52, 2.42, 2.43 and 2.33 s of CPU in f32, and 1.40, 1.31, 1.23 and 1.15 s in bf16. So a block has 256 rows,
// for 51 MB instead of the 412 MB of logits and their gradient. Where classes are few it has more, as nothing is gained
// by less than a cache holds.
//
// Operands of 16 bits are multiplied as narrow_product.h says: by the library, or as floats, for which weights are
// widened once. Where the processor has tiles, those of bf16 go another way: tile_head.h.
#include "kernels/cpu/matmul_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/narrow_product.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_head.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kFewestRows = 256;
constexpr int64_t kFewestBytes = 4 << 20;
// A row of logits takes a multiple of so many floats: by rows of 50,257 the library's products of bf16 take 1.40 s for
// 1,024 rows, not 1.15.
constexpr int64_t kRowUnit = 64;

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

struct Head : HeadCall {
  int64_t row() const { return RoundUp(n, kRowUnit); }  // from a row of logits to the next, in floats
  // The same of their gradient in 16 bits, which lies where logits were: a row is in half of the place. But beside
  // weights in panels the library has no product but of dense rows, or one that is many times slower: there
  // the gradient has a place of its own.
  int64_t row_dz() const { return packed ? n : 2 * row(); }
  // Blocks are of as many rows, or one more.
  int64_t blocks() const {
    const int64_t most = std::max(kFewestRows, kFewestBytes / std::max<int64_t>(1, row() * 4));
    return (rows + most - 1) / most;
  }
  int64_t begin(int64_t block) const { return rows * block / blocks(); }
  int64_t rows_of(int64_t block) const { return begin(block + 1) - begin(block); }
  int64_t most_rows() const { return rows == 0 ? 0 : (rows + blocks() - 1) / blocks(); }

  // Of a block of that many rows. As floats, weights in panels are dense [k,n], which Gemm takes them for.
  ProductShape Logits(int64_t m) const {
    ProductShape s = {1, m, n, k, false, transposed, packed};
    s.row_c = row();
    return s;
  }
  // `row_dz`: from a row of dz to the next, in its elements.
  ProductShape Dx(int64_t m, int64_t row_dz) const {
    ProductShape s = {1, m, k, n, false, !packed && !transposed, packed};
    s.row_a = row_dz;
    return s;
  }
  ProductShape Dw(int64_t m, int64_t row_dz, bool accumulate) const {
    ProductShape s = {1, turned ? n : k, turned ? k : n, m, true, false};
    (turned ? s.row_a : s.row_b) = row_dz;
    s.accumulate = accumulate;
    s.parts = PartsOfRows(s, threads);
    return s;
  }
};

// in: x, w, labels and, for gradients, dloss; out: loss, dx, dw. In panels wt is behind w.
template <bool kPacked, bool kGradient>
Head HeadOf(const KernelArgs& args) {
  const int labels = kPacked && kGradient ? 3 : 2;
  const TensorArg &x = args.in[0], &w = args.in[1];
  const bool transposed = !kPacked && args.attrs->Bool("transpose_b");
  Head head{{.x = x,
             .w = w,
             .labels = args.in[labels],
             .loss = args.out[0].as<float>(),
             .packed = kPacked,
             .transposed = transposed,
             .turned = kPacked ? args.attrs->Bool("dw_transpose") : transposed,
             .rows = Rows(x),
             .k = Columns(x),
             .n = kPacked ? w.dims[0] * w.dims[2] : w.dims[transposed ? 0 : 1],
             .threads = args.threads}};
  if constexpr (kGradient) {
    if (kPacked) head.wt = &args.in[2];
    head.dloss = &args.in[labels + 1];
    head.dx = &args.out[1];
    head.dw = &args.out[2];
  }
  return head;
}

const char* CheckLabels(const Head& head) {
  const int32_t* const labels = head.labels.as<const int32_t>();
  for (int64_t i = 0; i < head.rows; ++i) {
    if (labels[i] < 0 || labels[i] >= head.n) return "cross entropy: a label is no class";
  }
  return nullptr;
}

// z[n] -> dz, rounded to T and stored as To, maybe in the same memory: no element is written before it was read.
template <typename T, typename To>
void Gradient(const float* z, int64_t n, int64_t label, float dloss, float lse, To* dz) {
  float of_label[kLanes];
  Store(of_label, dloss * Exp(Splat(z[label] - lse)));
  VecLoop(n, [&](int64_t i, auto lanes) { Store(dz + i, RoundedTo<T>(dloss * Exp(Load(z + i, lanes) - lse)), lanes); });
  Store(of_label, RoundedTo<T>(Splat(of_label[0] - dloss)));
  FromFloat(of_label[0], dz + label);
}

// Losses of the rows from `first` on, as softmax_cross_entropy computes them; and the gradient of their logits, whose
// rows begin `row_dz` elements apart.
template <typename T, typename To>
void Losses(const Head& head, int64_t first, int64_t count, float* logits, To* dz, int64_t row_dz) {
  const int64_t n = head.n;
  ParallelFor(count, Grain(2 * static_cast<int64_t>(sizeof(float)) * n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const z = logits + i * head.row();
      const int64_t label = head.labels.as<const int32_t>()[first + i];
      F32s max = Splat(-INFINITY), sum = Splat(0);
      VecLoop(n, [&](int64_t j, auto lanes) { max = Max(max, Load(z + j, lanes, -INFINITY)); });
      const float top = MaxOf(max);
      VecLoop(n, [&](int64_t j, auto lanes) { sum += Keep(Exp(Load(z + j, lanes) - top), lanes); });
      const float log_sum = std::log(Sum(sum));
      head.loss[first + i] = log_sum - (z[label] - top);  // before adding top: no cancellation
      if (head.dloss == nullptr) continue;
      Gradient<T>(z, n, label, head.dloss->as<const float>()[first + i], top + log_sum, dz + i * row_dz);
    }
  });
}

// --- by products of floats

// Of operands that are T: where in the workspace what is, in floats.
template <typename T>
struct FloatSpace {
  explicit FloatSpace(const Head& head) {
    const int64_t rows = head.most_rows();
    logits = Take(rows * head.row());
    int64_t of_products = GemmWorkspace(head.Logits(rows));
    if (head.dx != nullptr) {
      of_products = std::max({of_products, GemmWorkspace(head.Dx(rows, head.row())),
                              GemmWorkspace(head.Dw(rows, head.row(), /*accumulate=*/false))});
    }
    products = Take(of_products);
    if (!Half<T>) return;
    w = Take(head.k * head.n);
    if (head.wt != nullptr) wt = Take(head.k * head.n);
    x = Take(rows * head.k);
    if (head.dx != nullptr) dx = Take(rows * head.k);
  }
  int64_t Take(int64_t floats) {
    size += RoundUp(floats, kRowUnit);
    return size - RoundUp(floats, kRowUnit);
  }
  int64_t size = 0, logits = 0, products = 0, w = 0, wt = 0, x = 0, dx = 0;
};

template <typename T>
class FloatHead {
 public:
  FloatHead(const Head& head, float* workspace) : head_(head), space_(head), workspace_(workspace) {
    w_ = Weight(head.w, head.k, head.n, space_.w);
    wt_ = head.wt == nullptr ? w_ : Weight(*head.wt, head.n, head.k, space_.wt);
  }

  const char* RunBlock(int64_t block) const {
    const int64_t begin = head_.begin(block), rows = head_.rows_of(block);
    float* const z = workspace_ + space_.logits;
    const float* const x = BlockOfX(begin, rows);
    if (const char* error = Multiply(head_.Logits(rows), x, w_, z)) return error;
    Losses<T>(head_, begin, rows, z, z, head_.row());
    if (head_.dloss == nullptr) return nullptr;
    if (const char* error = GiveDx(begin, rows, z)) return error;
    const ProductShape dw = head_.Dw(rows, head_.row(), /*accumulate=*/block > 0);
    return head_.turned ? Multiply(dw, z, x, head_.dw->as<float>()) : Multiply(dw, x, z, head_.dw->as<float>());
  }

 private:
  // The [k,n] weight as floats, or as it lies if it is that already.
  const float* Weight(const TensorArg& w, int64_t k, int64_t n, int64_t place) const {
    float* const wide = workspace_ + place;
    if constexpr (!Half<T>) {
      return w.as<const float>();
    } else if (head_.packed) {
      UnpackWeight(w.data, k, n, wide);
    } else {
      Convert(w.as<const T>(), wide, k * n);
    }
    return wide;
  }

  const char* Multiply(const ProductShape& shape, const float* a, const float* b, float* c) const {
    return Gemm(shape, a, b, c, workspace_ + space_.products);
  }

  const float* BlockOfX(int64_t begin, int64_t rows) const {
    const T* const x = head_.x.as<const T>() + begin * head_.k;
    if constexpr (Half<T>) {
      Convert(x, workspace_ + space_.x, rows * head_.k);
      return workspace_ + space_.x;
    } else {
      return x;
    }
  }

  const char* GiveDx(int64_t begin, int64_t rows, const float* dz) const {
    const ProductShape shape = head_.Dx(rows, head_.row());
    const int64_t first = begin * head_.k;
    if (head_.dx->dtype == DType::kFloat32) return Multiply(shape, dz, wt_, head_.dx->as<float>() + first);
    float* const sums = workspace_ + space_.dx;
    if (const char* error = Multiply(shape, dz, wt_, sums)) return error;
    return ByFloat(head_.dx->dtype, [&]<typename To>() { Convert(sums, head_.dx->as<To>() + first, rows * head_.k); });
  }

  const Head& head_;
  const FloatSpace<T> space_;
  float* const workspace_;
  const float *w_, *wt_;
};

// --- by the library's products of bf16

// Of blocks of so many rows; those of gradients are null where none are asked for.
struct BlockProducts {
  BlockProducts(const Head& head, int64_t rows) {
    const auto make = [](const ProductShape& s, DType out) {
      return NarrowProduct::Make(s, DType::kBFloat16, out, NarrowProduct::Way::kLibrary);
    };
    logits = make(head.Logits(rows), DType::kFloat32);
    if (head.dx == nullptr) return;
    dx = make(head.Dx(rows, head.row_dz()), head.dx->dtype);
    first_dw = make(head.Dw(rows, head.row_dz(), /*accumulate=*/false), DType::kFloat32);
    next_dw = make(head.Dw(rows, head.row_dz(), /*accumulate=*/true), DType::kFloat32);
  }
  size_t WorkspaceBytes() const {
    size_t bytes = 0;
    for (const auto* product : {&logits, &dx, &first_dw, &next_dw}) {
      if (*product != nullptr) bytes = std::max(bytes, (*product)->WorkspaceBytes());
    }
    return bytes;
  }
  std::unique_ptr<NarrowProduct> logits, dx, first_dw, next_dw;
};

class LibraryHead {
 public:
  explicit LibraryHead(const Head& head) {
    if (head.rows == 0) return;
    fewest_rows_ = head.rows / head.blocks();
    for (int64_t rows = fewest_rows_; rows <= head.most_rows(); ++rows) products_.emplace_back(head, rows);
  }

  size_t WorkspaceBytes(const Head& head) const {
    size_t bytes = 0;
    for (const BlockProducts& products : products_) bytes = std::max(bytes, products.WorkspaceBytes());
    return static_cast<size_t>(FloatsBefore(head)) * sizeof(float) + bytes;
  }

  const char* RunBlock(const Head& head, int64_t block, float* z) const {
    const int64_t begin = head.begin(block), rows = head.rows_of(block);
    const BlockProducts& products = products_[rows - fewest_rows_];
    auto* const dz = reinterpret_cast<BFloat16*>(head.packed ? z + head.most_rows() * head.row() : z);
    void* const scratch = z + FloatsBefore(head);
    const void* const x = head.x.as<const BFloat16>() + begin * head.k;
    if (const char* error = products.logits->Run(x, head.w.data, z, scratch)) return error;
    Losses<BFloat16>(head, begin, rows, z, dz, head.row_dz());
    if (head.dloss == nullptr) return nullptr;
    const void* const wt = head.wt == nullptr ? head.w.data : head.wt->data;
    char* const dx = head.dx->as<char>() + begin * head.k * SizeOf(head.dx->dtype);
    if (const char* error = products.dx->Run(dz, wt, dx, scratch)) return error;
    const NarrowProduct& dw = block == 0 ? *products.first_dw : *products.next_dw;
    return head.turned ? dw.Run(dz, x, head.dw->data, scratch) : dw.Run(x, dz, head.dw->data, scratch);
  }

 private:
  // Of logits and, where it has a place of its own, their gradient, before what the products take.
  static int64_t FloatsBefore(const Head& head) {
    const int64_t logits = head.most_rows() * head.row();
    return head.packed && head.dx != nullptr ? logits + RoundUp(logits / 2, kRowUnit) : logits;
  }

  int64_t fewest_rows_ = 0;
  std::vector<BlockProducts> products_;  // by rows, from the fewest
};

// --- the kernels

template <typename T>
bool ByTiles(const Head& head) {
  return std::is_same_v<T, BFloat16> && SuitsTiles(head);
}

template <typename T>
bool ByLibrary() {
  return std::is_same_v<T, BFloat16> && NarrowProduct::Fastest(DType::kBFloat16) == NarrowProduct::Way::kLibrary;
}

template <typename RunBlock>
const char* RunBlocks(const Head& head, RunBlock run_block) {
  for (int64_t block = 0; block < head.blocks(); ++block) {
    if (const char* error = run_block(block)) return error;
  }
  return nullptr;
}

template <typename T, bool kPacked, bool kGradient>
const char* Run(const KernelArgs& args) {
  const Head head = HeadOf<kPacked, kGradient>(args);
  if (const char* error = CheckLabels(head)) return error;
  if (head.rows == 0 && kGradient) FillZero(head.dw->data, static_cast<size_t>(head.dw->count) * sizeof(float));
  if (head.rows == 0) return nullptr;
  if (ByTiles<T>(head)) {
    RunTileHead(head, args.workspace);
    return nullptr;
  }
  float* const workspace = static_cast<float*>(args.workspace);
  if (ByLibrary<T>()) {
    const auto* const products = static_cast<const LibraryHead*>(args.state);
    return RunBlocks(head, [&](int64_t block) { return products->RunBlock(head, block, workspace); });
  }
  const FloatHead<T> floats(head, workspace);
  return RunBlocks(head, [&](int64_t block) { return floats.RunBlock(block); });
}

template <typename T, bool kPacked, bool kGradient>
size_t Workspace(const KernelArgs& args) {
  const Head head = HeadOf<kPacked, kGradient>(args);
  if (ByTiles<T>(head)) return TileHeadWorkspace(head);
  if (!ByLibrary<T>()) return static_cast<size_t>(FloatSpace<T>(head).size) * sizeof(float);
  return LibraryHead(head).WorkspaceBytes(head);
}

template <bool kPacked, bool kGradient>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  const Head head = HeadOf<kPacked, kGradient>(args);
  if (ByTiles<BFloat16>(head)) return std::make_shared<bool>(true);  // there is nothing to prepare
  return std::make_shared<LibraryHead>(head);
}

// Of one op and type of operands.
template <typename T, bool kPacked, bool kGradient>
Kernel KernelOf(const char* op, DType dtype) {
  return {op, dtype, Run<T, kPacked, kGradient>, Workspace<T, kPacked, kGradient>,
          ByLibrary<T>() ? Prepare<kPacked, kGradient> : nullptr};
}

}  // namespace

void AddMatmulCrossEntropy(KernelList& kernels) {
  const auto add = [&]<typename T>(T, DType dtype) {
    kernels.push_back(KernelOf<T, false, false>("matmul_cross_entropy", dtype));
    kernels.push_back(KernelOf<T, false, true>("matmul_cross_entropy_grad", dtype));
  };
  add(float{}, DType::kFloat32);
  add(BFloat16{}, DType::kBFloat16);
  add(Float16{}, DType::kFloat16);
  kernels.push_back(KernelOf<BFloat16, true, false>("packed_matmul_cross_entropy", DType::kBFloat16));
  kernels.push_back(KernelOf<BFloat16, true, true>("packed_matmul_cross_entropy_grad", DType::kBFloat16));
}

}  // namespace oneflow::cpu
