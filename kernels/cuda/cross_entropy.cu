// softmax_cross_entropy: per row lse = log sum exp(logits) and loss = lse - logits[label]; its gradient
// dlogits = dloss (exp(logits - lse) - [column == label]); and top1_correct, whether the label has the largest logit.
//
// Logits and their gradient may be of 16 bits; losses, lse and what is computed are float.
//
// In the gradient the classes may be split: `start` of the logits says which ones this shard holds. A label that is no
// class gives a loss of NaN: a launched kernel cannot return an error.
#include <cmath>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam, typename T>
__global__ void LossKernel(int64_t rows, int64_t c, const T* logits, const int32_t* labels, float* loss, float* lse) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const x = logits + row * c;
    float top = -INFINITY, sum = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) top = MaxOf()(top, Widen(x[i]));
    top = Reduce<kTeam>(top, MaxOf());
    for (int64_t i = team.member(); i < c; i += kTeam) sum += expf(Widen(x[i]) - top);
    const float log_sum = logf(Reduce<kTeam>(sum, SumOf()));
    if (team.member() != 0) continue;
    const int32_t label = labels[row];
    loss[row] =
        label >= 0 && label < c ? log_sum - (Widen(x[label]) - top) : NAN;  // before adding top: no cancellation
    lse[row] = top + log_sum;
  }
}

struct Best {
  float value;
  int64_t index;
};

// Equal values go to the lower index.
__device__ Best Better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

template <typename T>
__global__ void Top1Kernel(int64_t rows, int64_t c, const T* logits, const int32_t* labels, float* correct) {
  const Team<kWarp> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const T* const x = logits + row * c;
    Best best = {Widen(x[0]), 0};
    for (int64_t i = team.member(); i < c; i += kWarp) best = Better(best, {Widen(x[i]), i});
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      best = Better(best, {__shfl_xor_sync(0xffffffffu, best.value, distance),
                           __shfl_xor_sync(0xffffffffu, best.index, distance)});
    }
    if (team.member() == 0) correct[row] = best.index == labels[row] ? 1.0f : 0.0f;
  }
}

// in: logits, labels; out: loss, lse.
template <typename T>
const char* SoftmaxCrossEntropy(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = args.in[1].count;
  if (rows == 0) return nullptr;
  if (c == 0) return "cross entropy: there are no classes";
  return LaunchRows(args, rows, c, LossKernel<kWarp, T>, LossKernel<kThreads, T>, args.in[0].as<const T>(),
                    args.in[1].as<const int32_t>(), args.out[0].as<float>(), args.out[1].as<float>());
}

template <typename T>
const char* GradOfLogits(const KernelArgs& args) {
  const TensorArg& logits = args.in[1];
  const int64_t first = logits.start[logits.rank - 1];
  const float* const dloss = args.in[0].as<const float>();
  const T* const x = logits.as<const T>();
  const int32_t* const labels = args.in[2].as<const int32_t>();
  const float* const lse = args.in[3].as<const float>();
  T* const dx = args.out[0].as<T>();
  return ForEach(Stream(args), {Rows(logits), Columns(logits)}, [=] __device__(int64_t i, int64_t row, int64_t column) {
    const float scaled = dloss[row] * expf(Widen(x[i]) - lse[row]);
    dx[i] = Narrow<T>(labels[row] - first == column ? scaled - dloss[row] : scaled);
  });
}

// in: dloss, logits, labels, lse. Kernels are found by input 0, which is f32 whatever the logits are.
const char* SoftmaxCrossEntropyGrad(const KernelArgs& args) {
  return ByFloat(args.in[1].dtype, [&]<typename T>() { return GradOfLogits<T>(args); });
}

// in: logits, labels; of equal logits the lowest index counts as the largest.
template <typename T>
const char* Top1Correct(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = args.in[1].count;
  if (rows == 0) return nullptr;
  if (c == 0) return "cross entropy: there are no classes";
  return Launch({Stream(args), Blocks(rows, kThreads / kWarp)}, Top1Kernel<T>, rows, c, args.in[0].as<const T>(),
                args.in[1].as<const int32_t>(), args.out[0].as<float>());
}

}  // namespace

KernelList CrossEntropyKernels() {
  return {OF_FLOAT_KERNELS("softmax_cross_entropy", SoftmaxCrossEntropy),
          {"softmax_cross_entropy_grad", DType::kFloat32, SoftmaxCrossEntropyGrad},
          OF_FLOAT_KERNELS("top1_correct", Top1Correct)};
}

}  // namespace oneflow::cuda
