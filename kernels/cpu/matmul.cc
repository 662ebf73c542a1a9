// Matrix products: matmul (rows times a weight), matmul_bias (and a bias added), packed_matmul (a weight in panels),
// matmul_wgrad (x^T dy over all rows) and batch_matmul. Of floats as gemm.h says, of 16-bit floats as narrow_product.h.
#include <algorithm>

#include "kernels/cpu/fused_product.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/narrow_product.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows_product.h"
#include "kernels/cpu/tile_product.h"

namespace oneflow::cpu {
namespace {

// What an op multiplies, in which of its inputs.
struct Factors {
  ProductShape shape;
  int a = 0, b = 1;
};

// in: a[rows,k], w[k,n] or w[n,k].
Factors MatmulFactors(const KernelArgs& args) {
  const bool transposed = args.attrs->Bool("transpose_b");
  const TensorArg& w = args.in[1];
  return {{1, Rows(args.in[0]), w.dims[transposed ? 0 : 1], w.dims[transposed ? 1 : 0], false, transposed}};
}

// in: a[rows,k], packed w.
Factors PackedFactors(const KernelArgs& args) {
  const TensorArg &a = args.in[0], &y = args.out[0];
  return {{1, Rows(a), Columns(y), Columns(a), false, false, /*packed_b=*/true}};
}

// in: x[rows,k], dy[rows,n]; out: dw[k,n], or dw[n,k] if transposed.
Factors WgradFactors(const KernelArgs& args) {
  const int a = args.attrs->Bool("transpose") ? 1 : 0, b = 1 - a;
  ProductShape shape = {1, Columns(args.in[a]), Columns(args.in[b]), Rows(args.in[a]), true, false};
  shape.parts = PartsOfRows(shape, args.threads);
  return {shape, a, b};
}

// in: a[T...,m,k], b[T...,k,n], either transposed in its last two dimensions.
Factors BatchFactors(const KernelArgs& args) {
  const bool transpose_a = args.attrs->Bool("transpose_a");
  const TensorArg &a = args.in[0], &c = args.out[0];
  return {{Product(c, 0, c.rank - 2), c.dims[c.rank - 2], c.dims[c.rank - 1], a.dims[a.rank - (transpose_a ? 2 : 1)],
           transpose_a, args.attrs->Bool("transpose_b")}};
}

// The same; the first micro-batch of a step overwrites what is there, later ones add to it. The compiler makes it for
// GPUs alone, as it gains nothing here (kernels/NOTES.md).
Factors SumFactors(const KernelArgs& args) {
  Factors f = WgradFactors(args);
  f.shape.accumulate = args.micro_batch > 0;
  return f;
}

// Of floats.
template <Factors (*kFactors)(const KernelArgs&)>
size_t OneWorkspace(const KernelArgs& args) {
  return static_cast<size_t>(GemmWorkspace(kFactors(args).shape)) * sizeof(float);
}

template <Factors (*kFactors)(const KernelArgs&)>
const char* One(const KernelArgs& args) {
  const Factors f = kFactors(args);
  return Gemm(f.shape, args.in[f.a].as<const float>(), args.in[f.b].as<const float>(), args.out[0].as<float>(),
              static_cast<float*>(args.workspace));
}

// in: a[rows,k], w, b[n].
const char* MatmulBias(const KernelArgs& args) {
  return Gemm(MatmulFactors(args).shape, args.in[0].as<const float>(), args.in[1].as<const float>(),
              args.out[0].as<float>(), static_cast<float*>(args.workspace), args.in[2].as<const float>());
}

// The index of the matrix of `x` that batch `batch` of the output `c` uses; dimensions of size 1 repeat.
int64_t MatrixOf(const TensorArg& x, const TensorArg& c, int64_t batch) {
  int64_t index = 0, stride = 1;
  for (int i = 1; i <= c.rank - 2; ++i) {
    const int64_t extent = c.dims[c.rank - 2 - i];
    const int64_t at = batch % extent;
    batch /= extent;
    const int64_t x_extent = i <= x.rank - 2 ? x.dims[x.rank - 2 - i] : 1;
    if (x_extent != 1) index += at * stride;
    stride *= x_extent;
  }
  return index;
}

// Many small products run one per thread, few large ones with all threads each.
const char* BatchMatmul(const KernelArgs& args) {
  const TensorArg &a = args.in[0], &b = args.in[1], &c = args.out[0];
  if (c.count == 0) return nullptr;
  const ProductShape s = BatchFactors(args).shape;
  // Written by any thread that fails; all would say the same.
  const char* error = nullptr;
  const auto product = [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) {
      const char* const failed =
          Gemm(s, a.as<const float>() + MatrixOf(a, c, batch) * s.m * s.k,
               b.as<const float>() + MatrixOf(b, c, batch) * s.k * s.n, c.as<float>() + batch * s.m * s.n, nullptr);
      if (failed != nullptr) {
#pragma omp atomic write
        error = failed;
      }
    }
  };
  if (s.batch >= NumThreads()) {
    ParallelFor(s.batch, Grain((s.m * s.k + s.k * s.n + s.m * s.n) * static_cast<int64_t>(sizeof(float))), product);
  } else {
    product(0, s.batch);
  }
  return error;
}

// Of 16-bit floats. The product is made when a job is loaded; before, only to ask what memory it takes.
template <Factors (*kFactors)(const KernelArgs&)>
std::unique_ptr<NarrowProduct> Make(const KernelArgs& args) {
  const DType in = args.in[0].dtype, out = args.out[0].dtype;
  const ProductShape shape = kFactors(args).shape;
  const NarrowProduct::Way way = NarrowProduct::Fastest(in);
  if (auto product = MakeTileProduct(shape, in, out, args.threads)) return product;
  if (way == NarrowProduct::Way::kLibrary) {
    if (auto product = MakeRowsProduct(shape, in, out, args.threads)) return product;
  }
  return NarrowProduct::Make(shape, in, out, way);
}

template <Factors (*kFactors)(const KernelArgs&)>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  return std::shared_ptr<NarrowProduct>(Make<kFactors>(args));
}

template <Factors (*kFactors)(const KernelArgs&)>
size_t Workspace(const KernelArgs& args) {
  const std::unique_ptr<NarrowProduct> product = Make<kFactors>(args);
  return product == nullptr ? 0 : product->WorkspaceBytes();
}

template <Factors (*kFactors)(const KernelArgs&)>
const char* Narrow(const KernelArgs& args) {
  const Factors f = kFactors(args);
  return static_cast<const NarrowProduct*>(args.state)
      ->Run(args.in[f.a].data, args.in[f.b].data, args.out[0].data, args.workspace);
}

// Products of 16-bit floats that begin a sum over micro-batches, and that go on with it.
struct SumProducts {
  std::unique_ptr<NarrowProduct> first, next;

  static SumProducts Of(KernelArgs args) {
    args.micro_batch = 0;
    SumProducts products{Make<SumFactors>(args), nullptr};
    args.micro_batch = 1;
    products.next = Make<SumFactors>(args);
    return products;
  }
  bool has_both() const { return first != nullptr && next != nullptr; }
};

std::shared_ptr<void> PrepareSum(const KernelArgs& args) {
  auto products = std::make_shared<SumProducts>(SumProducts::Of(args));
  return products->has_both() ? products : nullptr;
}

size_t SumWorkspace(const KernelArgs& args) {
  const SumProducts products = SumProducts::Of(args);
  return products.has_both() ? std::max(products.first->WorkspaceBytes(), products.next->WorkspaceBytes()) : 0;
}

const char* NarrowSum(const KernelArgs& args) {
  const auto& products = *static_cast<const SumProducts*>(args.state);
  const Factors f = SumFactors(args);
  const NarrowProduct& product = f.shape.accumulate ? *products.next : *products.first;
  return product.Run(args.in[f.a].data, args.in[f.b].data, args.out[0].data, args.workspace);
}

template <Factors (*kFactors)(const KernelArgs&)>
void ListNarrow(const char* op, KernelList& kernels) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    kernels.push_back({op, dtype, Narrow<kFactors>, Workspace<kFactors>, Prepare<kFactors>});
  }
}

}  // namespace

KernelList MatmulKernels() {
  KernelList kernels = {{"matmul", DType::kFloat32, One<MatmulFactors>, OneWorkspace<MatmulFactors>},
                        {"matmul_bias", DType::kFloat32, MatmulBias, OneWorkspace<MatmulFactors>},
                        {"matmul_wgrad", DType::kFloat32, One<WgradFactors>, OneWorkspace<WgradFactors>},
                        {"accumulate_matmul_wgrad", DType::kFloat32, One<SumFactors>, OneWorkspace<SumFactors>},
                        {"batch_matmul", DType::kFloat32, BatchMatmul}};
  ListNarrow<MatmulFactors>("matmul", kernels);
  ListNarrow<WgradFactors>("matmul_wgrad", kernels);
  ListNarrow<BatchFactors>("batch_matmul", kernels);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    kernels.push_back({"accumulate_matmul_wgrad", dtype, NarrowSum, SumWorkspace, PrepareSum});
  }
  kernels.push_back(
      {"packed_matmul", DType::kBFloat16, Narrow<PackedFactors>, Workspace<PackedFactors>, Prepare<PackedFactors>});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    kernels.push_back({"pack_weight", dtype, PackWeight});
    kernels.push_back({"pack_weight_both_ways", dtype, PackWeightBothWays});
  }
  AddFusedProducts(kernels);
  return kernels;
}

}  // namespace oneflow::cpu
