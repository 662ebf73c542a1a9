// softmax_cross_entropy: per row lse = log sum exp(logits) and loss = lse - logits[label]; its gradient
// dlogits = dloss (exp(logits - lse) - [column == label]); and top1_correct, whether the label has the largest logit.
//
// Logits and their gradient may be of 16 bits; losses, lse and what is computed are float.
//
// In the gradient the classes may be split: `start` of the logits says which ones this shard holds.
#include <cmath>

#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_cross_entropy.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// f(row, its logits, its label) for all rows of in[0], the labels being in[1]. Null, or what is wrong with a label.
template <typename T, typename F>
const char* ForLabelledRows(const KernelArgs& args, F f) {
  const int64_t c = Columns(args.in[0]), rows = args.in[1].count;
  const int32_t* const labels = args.in[1].as<const int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    if (labels[row] < 0 || labels[row] >= c) return "cross entropy: a label is no class";
  }
  ForRows(rows, sizeof(T) * c, [&](int64_t row) { f(row, args.in[0].as<const T>() + row * c, labels[row]); });
  return nullptr;
}

// in: logits, labels; out: loss, lse.
template <typename T>
const char* SoftmaxCrossEntropy(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  return ForLabelledRows<T>(args, [&](int64_t row, const T* x, int32_t label) {
    const float top = LargestOf(x, c), log_sum = std::log(SumOfExp(x, c, top));
    args.out[0].as<float>()[row] = log_sum - (ToFloat(x[label]) - top);  // before adding top: no cancellation
    args.out[1].as<float>()[row] = top + log_sum;
  });
}

template <typename T>
void GradOfLogits(const KernelArgs& args) {
  const TensorArg& logits = args.in[1];
  const int64_t c = Columns(logits), first = logits.start[logits.rank - 1], rows = args.in[0].count;
  const int32_t* const labels = args.in[2].as<const int32_t>();
  ParallelFor(rows, Grain(2 * sizeof(T) * c), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = logits.as<const T>() + row * c;
      T* const dx = args.out[0].as<T>() + row * c;
      const float dloss = args.in[0].as<const float>()[row], lse = args.in[3].as<const float>()[row];
      VecLoop(c, [&](int64_t i, auto lanes) { Store(dx + i, dloss * Exp(Load(x + i, lanes) - lse), lanes); });
      const int64_t label = labels[row] - first;
      if (label < 0 || label >= c) continue;
      if constexpr (Half<T>) {  // not what was rounded already
        float of_label[kLanes];
        Store(of_label, dloss * Exp(Splat(ToFloat(x[label]) - lse)));
        FromFloat(of_label[0] - dloss, dx + label);
      } else {
        dx[label] -= dloss;
      }
    }
  });
}

// in: dloss, logits, labels, lse. Kernels are found by input 0, which is f32 whatever the logits are.
const char* SoftmaxCrossEntropyGrad(const KernelArgs& args) {
  return ByFloat(args.in[1].dtype, [&]<typename T>() { GradOfLogits<T>(args); });
}

// in: logits, labels; of equal logits the lowest index counts as the largest.
template <typename T>
const char* Top1Correct(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]);
  return ForLabelledRows<T>(args, [&](int64_t row, const T* x, int32_t label) {
    int64_t best = 0;
    for (int64_t i = 1; i < c; ++i) {
      if (ToFloat(x[i]) > ToFloat(x[best])) best = i;
    }
    args.out[0].as<float>()[row] = best == label ? 1.0f : 0.0f;
  });
}

}  // namespace

KernelList CrossEntropyKernels() {
  KernelList kernels = {OF_FLOAT_KERNELS("softmax_cross_entropy", SoftmaxCrossEntropy),
                        {"softmax_cross_entropy_grad", DType::kFloat32, SoftmaxCrossEntropyGrad},
                        OF_FLOAT_KERNELS("top1_correct", Top1Correct)};
  AddMatmulCrossEntropy(kernels);
  return kernels;
}

}  // namespace oneflow::cpu
