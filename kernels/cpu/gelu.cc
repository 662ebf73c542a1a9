// The gradient of gelu(x) = x Phi(x), with the exact normal distribution: dx = dy (Phi(x) + x phi(x)).
//
// bias_add_gelu and gelu_bias_grad are what the compiler makes for GPUs. Here, where a pass less gains nothing
// (kernels/NOTES.md), they are their parts, some rows at a time.
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/gelu_rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"

namespace oneflow::cpu {
namespace {

// in: x, b; out: h, y.
template <typename T>
const char* BiasAddGelu(const KernelArgs& args) {
  AddBiasAndGelu(Rows(args.in[0]), Columns(args.in[0]), args.in[0].as<const T>(), args.in[1].as<const float>(),
                 args.out[0].as<T>(), args.out[1].as<T>());
  return nullptr;
}

size_t SumsWorkspace(const KernelArgs& args) { return ColumnSumsWorkspace(Rows(args.in[0]), Columns(args.in[0])); }

// in: dy, h; out: d, db.
template <typename T>
const char* GeluBiasGrad(const KernelArgs& args) {
  GeluGradAndSums(Rows(args.in[0]), Columns(args.in[0]), args.in[0].as<const T>(), args.in[1].as<const T>(),
                  args.out[0].as<T>(), args.out[1].as<float>(), args.workspace);
  return nullptr;
}

}  // namespace

KernelList GeluKernels() {
  return {OF_FLOAT_KERNELS("bias_add_gelu", BiasAddGelu),
          OF_FLOAT_KERNELS("gelu_bias_grad", GeluBiasGrad, SumsWorkspace)};
}

}  // namespace oneflow::cpu
