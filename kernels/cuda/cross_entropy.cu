// softmax_cross_entropy: per row lse = log sum exp(logits) and loss = lse - logits[label]; its gradient
// dlogits = dloss (exp(logits - lse) - [column == label]); and top1_correct, whether the label has the largest logit.
//
// In the gradient the classes may be split: `start` of the logits says which ones this shard holds. A label that is no
// class gives a loss of NaN: a launched kernel cannot return an error.
#include <cmath>
#include <memory>

#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

template <int kTeam>
__global__ void LossKernel(int64_t rows, int64_t c, const float* logits, const int32_t* labels, float* loss,
                           float* lse) {
  const Team<kTeam> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const x = logits + row * c;
    float top = -INFINITY, sum = 0;
    for (int64_t i = team.member(); i < c; i += kTeam) top = MaxOf()(top, x[i]);
    top = Reduce<kTeam>(top, MaxOf());
    for (int64_t i = team.member(); i < c; i += kTeam) sum += expf(x[i] - top);
    const float log_sum = logf(Reduce<kTeam>(sum, SumOf()));
    if (team.member() != 0) continue;
    const int32_t label = labels[row];
    loss[row] = label >= 0 && label < c ? log_sum - (x[label] - top) : NAN;  // before adding top: no cancellation
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

__global__ void Top1Kernel(int64_t rows, int64_t c, const float* logits, const int32_t* labels, float* correct) {
  const Team<kWarp> team;
  for (int64_t row = team.first(); row < rows; row += team.stride()) {
    const float* const x = logits + row * c;
    Best best = {x[0], 0};
    for (int64_t i = team.member(); i < c; i += kWarp) best = Better(best, {x[i], i});
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      best = Better(best, {__shfl_xor_sync(0xffffffffu, best.value, distance),
                           __shfl_xor_sync(0xffffffffu, best.index, distance)});
    }
    if (team.member() == 0) correct[row] = best.index == labels[row] ? 1.0f : 0.0f;
  }
}

// in: logits, labels; out: loss, lse.
const char* SoftmaxCrossEntropy(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = args.in[1].count;
  if (rows == 0) return nullptr;
  if (c == 0) return "cross entropy: there are no classes";
  const float* const x = args.in[0].as<const float>();
  const int32_t* const labels = args.in[1].as<const int32_t>();
  float* const loss = args.out[0].as<float>();
  float* const lse = args.out[1].as<float>();
  if (c <= kWarpColumns) {
    return Launch({Stream(args), Blocks(rows, kThreads / kWarp)}, LossKernel<kWarp>, rows, c, x, labels, loss, lse);
  }
  return Launch({Stream(args), Blocks(rows, 1)}, LossKernel<kThreads>, rows, c, x, labels, loss, lse);
}

// in: dloss, logits, labels, lse.
const char* SoftmaxCrossEntropyGrad(const KernelArgs& args) {
  const TensorArg& logits = args.in[1];
  const int64_t first = logits.start[logits.rank - 1];
  const float* const dloss = args.in[0].as<const float>();
  const float* const x = logits.as<const float>();
  const int32_t* const labels = args.in[2].as<const int32_t>();
  const float* const lse = args.in[3].as<const float>();
  float* const dx = args.out[0].as<float>();
  return ForEach(Stream(args), {Rows(logits), Columns(logits)}, [=] __device__(int64_t i, int64_t row, int64_t column) {
    const float scaled = dloss[row] * expf(x[i] - lse[row]);
    dx[i] = labels[row] - first == column ? scaled - dloss[row] : scaled;
  });
}

// Kernels are found by input 0, which is f32 whatever the logits are.
std::shared_ptr<void> AreLogitsF32(const KernelArgs& args) {
  return args.in[1].dtype == DType::kFloat32 ? std::make_shared<char>() : nullptr;
}

// in: logits, labels; of equal logits the lowest index counts as the largest.
const char* Top1Correct(const KernelArgs& args) {
  const int64_t c = Columns(args.in[0]), rows = args.in[1].count;
  if (rows == 0) return nullptr;
  if (c == 0) return "cross entropy: there are no classes";
  return Launch({Stream(args), Blocks(rows, kThreads / kWarp)}, Top1Kernel, rows, c, args.in[0].as<const float>(),
                args.in[1].as<const int32_t>(), args.out[0].as<float>());
}

}  // namespace

KernelList CrossEntropyKernels() {
  return {{"softmax_cross_entropy", DType::kFloat32, SoftmaxCrossEntropy},
          {"softmax_cross_entropy_grad", DType::kFloat32, SoftmaxCrossEntropyGrad, nullptr, AreLogitsF32},
          {"top1_correct", DType::kFloat32, Top1Correct}};
}

}  // namespace oneflow::cuda
