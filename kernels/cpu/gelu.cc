// gelu(x) = x Phi(x) with the exact normal distribution, and dx = dy (Phi(x) + x phi(x)).
//
// bias_add_gelu and gelu_bias_grad are what the compiler makes for GPUs. Here, where a pass less gains nothing
// (kernels/README.md), they are their parts, some rows at a time.
#include <algorithm>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

template <typename T>
const char* Gelu(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  T* const y = args.out[0].as<T>();
  ParallelFor(args.in[0].count, Grain(2 * sizeof(T)), [&](int64_t begin, int64_t end) {
    VecLoop(end - begin,
            [&](int64_t i, auto lanes) { Store(y + begin + i, GeluOf(Load(x + begin + i, lanes)), lanes); });
  });
  return nullptr;
}

template <typename T>
void GeluGradOf(int64_t n, const T* dy, const T* x, T* dx) {
  VecLoop(n, [&](int64_t i, auto lanes) { Store(dx + i, Load(dy + i, lanes) * GeluSlope(Load(x + i, lanes)), lanes); });
}

// in: dy, x.
template <typename T>
const char* GeluGrad(const KernelArgs& args) {
  const T* const dy = args.in[0].as<const T>();
  const T* const x = args.in[1].as<const T>();
  T* const dx = args.out[0].as<T>();
  ParallelFor(args.in[0].count, Grain(3 * sizeof(T)),
              [&](int64_t begin, int64_t end) { GeluGradOf(end - begin, dy + begin, x + begin, dx + begin); });
  return nullptr;
}

// in: x, b; out: h, y.
template <typename T>
const char* BiasAddGelu(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T *const h = args.out[0].as<T>(), *const y = args.out[1].as<T>();
  ParallelFor(Rows(args.in[0]), Grain(3 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * c; at < end * c; at += c) {
      VecLoop(c, [&](int64_t i, auto lanes) {
        Store(h + at + i, Load(x + at + i, lanes) + Load(b + i, lanes), lanes);
        Store(y + at + i, GeluOf(Load(h + at + i, lanes)), lanes);
      });
    }
  });
  return nullptr;
}

size_t SumsWorkspace(const KernelArgs& args) { return ColumnSumsWorkspace(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, h; out: d, db. Rows are added while the first cache has them.
template <typename T>
const char* GeluBiasGrad(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  const T *const dy = args.in[0].as<const T>(), *const h = args.in[1].as<const T>();
  T* const d = args.out[0].as<T>();
  SumColumns<1>(Rows(args.in[0]), c, 3 * static_cast<int64_t>(sizeof(T)) * c, args.workspace, {args.out[1].as<float>()},
                [&](int64_t begin, int64_t end, float* sums) {
                  for (int64_t row = begin; row < end; row += kRowsAtOnce) {
                    const int64_t rows = std::min(kRowsAtOnce, end - row), at = row * c;
                    GeluGradOf(rows * c, dy + at, h + at, d + at);
                    AddColumns(d + at, rows, c, sums);
                  }
                });
  return nullptr;
}

}  // namespace

KernelList GeluKernels() {
  return {OF_FLOAT_KERNELS("gelu", Gelu), OF_FLOAT_KERNELS("gelu_grad", GeluGrad),
          OF_FLOAT_KERNELS("bias_add_gelu", BiasAddGelu),
          OF_FLOAT_KERNELS("gelu_bias_grad", GeluBiasGrad, SumsWorkspace)};
}

}  // namespace oneflow::cpu
