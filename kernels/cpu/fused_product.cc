// What follows a product by a weight in panels: a bias, a gelu behind it, the gradients of both, and sums of several
// products. On tiles it is done with a block of sums while it is in the first cache (tile_product.h). Elsewhere the
// products go as narrow_product.h says, and one pass over what they give does the rest.
#include "kernels/cpu/fused_product.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/gelu_rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/narrow_product.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/tile_product.h"

namespace oneflow::cpu {
namespace {

enum class Then { kBias, kBiasGelu, kGeluBiasGrad, kSum };

// What an op is asked for.
template <Then kThen>
PanelProduct CallOf(const KernelArgs& args) {
  const TensorArg& h = args.out[0];
  PanelProduct call = {.m = Rows(h), .n = Columns(h), .factors = {}, .h = h.data, .dtype = h.dtype};
  const int in = static_cast<int>(args.in.size());
  call.num_factors = kThen == Then::kSum ? in / 2 : 1;
  for (int i = 0; i < call.num_factors; ++i) {
    call.factors[i] = {args.in[2 * i].data, args.in[2 * i + 1].data, Columns(args.in[2 * i])};
  }
  if (kThen == Then::kBias || kThen == Then::kBiasGelu) call.bias = args.in[2].as<const float>();
  if (kThen == Then::kBiasGelu) call.y = args.out[1].data;
  if (kThen == Then::kGeluBiasGrad) {
    call.has_slope = true;
    call.slope_of = args.in[2].data;
    call.column_sums = args.out[1].as<float>();
  }
  return call;
}

bool ByTiles(const PanelProduct& call) {
  bool has_terms = kHasTiles && call.m > 0 && call.n > 0;
  for (int i = 0; i < call.num_factors; ++i) has_terms = has_terms && call.factors[i].k > 0;
  return has_terms;
}

constexpr size_t kLineBytes = 64;
size_t Lines(size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

// The products, one after the other. One alone goes where the result goes. Several are summed in floats, in the
// workspace: where the library multiplies bf16 it adds to the first one's sums, elsewhere each has its own.
class Products {
 public:
  Products(const PanelProduct& call, DType in) : adds_(NarrowProduct::Fastest(in) == NarrowProduct::Way::kLibrary) {
    const bool is_sum = call.num_factors > 1;
    for (int i = 0; i < call.num_factors; ++i) {
      ProductShape shape = {1, call.m, call.n, call.factors[i].k, false, false, /*packed_b=*/true};
      shape.accumulate = is_sum && adds_ && i > 0;
      products_.push_back(
          NarrowProduct::Make(shape, in, is_sum ? DType::kFloat32 : call.dtype, NarrowProduct::Fastest(in)));
    }
    addends_ = !is_sum ? 0 : adds_ ? 1 : call.num_factors;
    floats_ = call.m * call.n;
  }
  bool has_all() const {
    return std::all_of(products_.begin(), products_.end(), [](const auto& product) { return product != nullptr; });
  }
  size_t WorkspaceBytes() const {
    size_t most = 0;
    for (const auto& product : products_) most = std::max(most, product == nullptr ? 0 : product->WorkspaceBytes());
    return Lines(most) + static_cast<size_t>(addends_) * AddendBytes();
  }

  const char* Run(const PanelProduct& call, void* workspace) const {
    char* const sums = static_cast<char*>(workspace);
    void* const scratch = sums + static_cast<size_t>(addends_) * AddendBytes();
    for (int i = 0; i < call.num_factors; ++i) {
      void* const to = addends_ == 0 ? call.h : sums + (adds_ ? 0 : static_cast<size_t>(i)) * AddendBytes();
      if (const char* error = products_[i]->Run(call.factors[i].a, call.factors[i].w, to, scratch)) return error;
    }
    if (addends_ == 0) return nullptr;
    return ByFloat(call.dtype, [&]<typename T>() { Add(sums, static_cast<T*>(call.h)); });
  }

 private:
  size_t AddendBytes() const { return Lines(static_cast<size_t>(floats_) * sizeof(float)); }
  template <typename T>
  void Add(const char* sums, T* to) const {
    const auto addend = [&](int64_t i) { return reinterpret_cast<const float*>(sums + i * AddendBytes()); };
    ParallelFor(floats_, Grain(addends_ * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(sizeof(T))),
                [&](int64_t begin, int64_t end) {
                  VecLoop(end - begin, [&](int64_t j, auto lanes) {
                    F32s sum = Load(addend(0) + begin + j, lanes);
                    for (int64_t i = 1; i < addends_; ++i) sum += Load(addend(i) + begin + j, lanes);
                    Store(to + begin + j, sum, lanes);
                  });
                });
  }

  const bool adds_;
  std::vector<std::unique_ptr<NarrowProduct>> products_;
  int64_t addends_, floats_;
};

// What is left to do with h, the product as it was rounded.
template <typename T>
void Finish(const PanelProduct& call, void* workspace) {
  T* const h = static_cast<T*>(call.h);
  if (call.has_slope) {
    GeluGradAndSums(call.m, call.n, h, static_cast<const T*>(call.slope_of), h, call.column_sums, workspace);
  } else if (call.y != nullptr) {
    AddBiasAndGelu(call.m, call.n, h, call.bias, h, static_cast<T*>(call.y));
  } else if (call.bias != nullptr) {
    ParallelFor(call.m, Grain(2 * static_cast<int64_t>(sizeof(T)) * call.n), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * call.n; at < end * call.n; at += call.n) {
        VecLoop(call.n, [&](int64_t i, auto lanes) {
          Store(h + at + i, Load(h + at + i, lanes) + Load(call.bias + i, lanes), lanes);
        });
      }
    });
  }
}

template <Then kThen>
size_t Workspace(const KernelArgs& args) {
  const PanelProduct call = CallOf<kThen>(args);
  if (ByTiles(call)) return PanelProductWorkspace(call);
  const size_t sums = kThen == Then::kGeluBiasGrad ? ColumnSumsWorkspace(call.m, call.n) : 0;
  return std::max(Products(call, args.in[0].dtype).WorkspaceBytes(), sums);
}

template <Then kThen>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  const PanelProduct call = CallOf<kThen>(args);
  if (ByTiles(call)) return std::make_shared<bool>(true);  // there is nothing to prepare
  auto products = std::make_shared<Products>(call, args.in[0].dtype);
  return products->has_all() ? products : nullptr;
}

template <Then kThen>
const char* Run(const KernelArgs& args) {
  const PanelProduct call = CallOf<kThen>(args);
  if (ByTiles(call)) return RunPanelProduct(call, args.workspace);
  if (const char* error = static_cast<const Products*>(args.state)->Run(call, args.workspace)) return error;
  return ByFloat(call.dtype, [&]<typename T>() { Finish<T>(call, args.workspace); });
}

template <Then kThen>
Kernel KernelOf(const char* op) {
  return {op, DType::kBFloat16, Run<kThen>, Workspace<kThen>, Prepare<kThen>};
}

}  // namespace

void AddFusedProducts(KernelList& kernels) {
  kernels.push_back(KernelOf<Then::kBias>("packed_matmul_bias"));
  kernels.push_back(KernelOf<Then::kBiasGelu>("packed_matmul_bias_gelu"));
  kernels.push_back(KernelOf<Then::kGeluBiasGrad>("packed_matmul_gelu_bias_grad"));
  kernels.push_back(KernelOf<Then::kSum>("sum_packed_matmul"));
}

}  // namespace oneflow::cpu
