// ctc_loss and its gradient: a block for each sample, a thread for each state of it and every 256th behind. Rows of
// logarithms are moved so that their largest element is 0, as on a CPU (kernels/cpu/ctc.cc). A sample whose lengths or
// labels are not what they may be has a loss, and gradients, of NaN: a launched kernel cannot return an error.
#include <cmath>

#include "kernels/ctc_paths.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace ctc {
namespace {

__device__ float LogSumExp(float a, float b, float c) {
  const float top = MaxOf()(MaxOf()(a, b), c);
  if (top == -INFINITY) return top;
  return top + logf(expf(a - top) + expf(b - top) + expf(c - top));
}

// Subtracts the largest element of a block's row from all; gives what was subtracted.
__device__ float Normalize(float* row, int64_t n, float own_top) {
  const float top = Reduce<kThreads>(own_top, MaxOf());
  if (top == -INFINITY) {
    __syncthreads();
    return 0;
  }
  for (int64_t q = threadIdx.x; q < n; q += kThreads) row[q] -= top;
  __syncthreads();
  return top;
}

// The rows A of a sample, in turns of `kept` rows, `stride` apart. Gives the logarithm of the sum over all paths.
__device__ double WalkForward(const CtcSample& x, float* rows, int64_t stride, int64_t kept) {
  const int64_t n = x.states();
  double moved = 0;
  for (int64_t t = 0; t < x.steps; ++t) {
    float* const row = rows + t % kept * stride;
    const float* const before = rows + (t + kept - 1) % kept * stride;
    float top = -INFINITY;
    for (int64_t q = threadIdx.x; q < n; q += kThreads) {
      float value = q < 2 ? 0.0f : -INFINITY;
      if (t > 0) {
        value = LogSumExp(before[q], q > 0 ? before[q - 1] : -INFINITY, x.Skips(q) ? before[q - 2] : -INFINITY);
      }
      row[q] = value += x.LogProb(t, q);
      top = MaxOf()(top, value);
    }
    moved += Normalize(row, n, top);
  }
  const float* const last = rows + (x.steps - 1) % kept * stride;
  return moved + log(exp(static_cast<double>(last[n - 1])) + (n > 1 ? exp(static_cast<double>(last[n - 2])) : 0));
}

__global__ void LossKernel(CtcOperands x, float* rows, float* losses) {
  for (int64_t i = blockIdx.x; i < x.b; i += gridDim.x) {
    const CtcSample sample = x.Sample(i);
    double loss = sample.num_labels == 0 ? 0 : INFINITY;  // of no step
    if (!sample.good) {
      loss = NAN;
    } else if (sample.steps > 0) {
      loss = -WalkForward(sample, rows + i * 2 * x.most_states(), x.most_states(), 2);
    }
    if (threadIdx.x == 0) losses[i] = x.zero_infinity && isinf(loss) ? 0 : static_cast<float>(loss);
    __syncthreads();
  }
}

// A block's memory in the gradient.
struct GradRows {
  __host__ __device__ static int64_t Floats(const CtcOperands& x) { return (x.t + 3) * x.most_states() + x.s; }
  __device__ GradRows(const CtcOperands& x, float* memory)
      : forward(memory),
        back(forward + x.t * x.most_states()),
        weights(back + 2 * x.most_states()),
        next(reinterpret_cast<int32_t*>(weights + x.most_states())) {}
  float *forward, *back, *weights;
  int32_t* next;  // of a label: the next place of the same one, or -1; less 2^30 where it has one before it
};

constexpr int32_t kIsLater = 1 << 30;

// Chains of equal labels, so that the states of a class are summed in their order.
__device__ void FindChains(const CtcSample& x, int32_t* next) {
  for (int64_t j = threadIdx.x; j < x.num_labels; j += kThreads) {
    int64_t later = j + 1, earlier = j - 1;
    while (later < x.num_labels && x.labels[later] != x.labels[j]) ++later;
    while (earlier >= 0 && x.labels[earlier] != x.labels[j]) --earlier;
    const int32_t link = later < x.num_labels ? static_cast<int32_t>(later) : -1;
    next[j] = earlier >= 0 ? link - kIsLater : link;
  }
  __syncthreads();
}

// -dloss times the shares of the states of a step, to its gradient.
__device__ void GiveShares(const CtcSample& x, const GradRows& rows, const float* forward, const float* back,
                           float dloss, float* to) {
  const int64_t n = x.states();
  float top = -INFINITY;
  for (int64_t q = threadIdx.x; q < n; q += kThreads) top = MaxOf()(top, rows.weights[q] = forward[q] + back[q]);
  top = Reduce<kThreads>(top, MaxOf());
  float blank = 0, rest = 0;
  for (int64_t q = threadIdx.x; q < n; q += kThreads) {
    const float weight = rows.weights[q] = expf(rows.weights[q] - top);
    (q % 2 == 0 ? blank : rest) += weight;
  }
  blank = Reduce<kThreads>(blank, SumOf());  // all threads have written their weights then
  const float factor = -dloss / (blank + Reduce<kThreads>(rest, SumOf()));
  if (threadIdx.x == 0) to[kCtcBlank] = factor * blank;
  for (int64_t j = threadIdx.x; j < x.num_labels; j += kThreads) {
    if (rows.next[j] < -1) continue;  // the first place of the label sums them
    float sum = 0;
    for (int64_t at = j; at >= 0;) {
      sum += rows.weights[2 * at + 1];
      const int32_t link = rows.next[at];
      at = link < -1 ? link + kIsLater : link;
    }
    to[x.labels[j]] = factor * sum;
  }
  __syncthreads();
}

// The row B of the step before.
__device__ void StepBack(const CtcSample& x, int64_t t, const float* back, float* to) {
  const int64_t n = x.states();
  float top = -INFINITY;
  const auto arrives = [&](int64_t q) { return back[q] + x.LogProb(t, q); };
  for (int64_t q = threadIdx.x; q < n; q += kThreads) {
    to[q] = LogSumExp(arrives(q), q + 1 < n ? arrives(q + 1) : -INFINITY,
                      q + 2 < n && x.Skips(q + 2) ? arrives(q + 2) : -INFINITY);
    top = MaxOf()(top, to[q]);
  }
  Normalize(to, n, top);
}

// `to` is zeros.
__global__ void GradKernel(CtcOperands x, const float* dloss, float* memory, float* gradients) {
  for (int64_t i = blockIdx.x; i < x.b; i += gridDim.x) {
    const CtcSample sample = x.Sample(i);
    const GradRows rows(x, memory + i * GradRows::Floats(x));
    float* const to = gradients + i * x.t * x.c;
    const int64_t n = sample.states(), stride = x.most_states();
    const bool walks = sample.good && sample.steps > 0;
    const double total = walks ? WalkForward(sample, rows.forward, stride, x.t) : 0;
    if (!sample.good || isinf(total)) {
      const int64_t steps = sample.good ? sample.steps : x.t;
      const bool is_zero = sample.good && x.zero_infinity;
      for (int64_t at = threadIdx.x; !is_zero && at < steps * x.c; at += kThreads) to[at] = NAN;
      continue;
    }
    if (!walks) continue;
    FindChains(sample, rows.next);
    for (int64_t q = threadIdx.x; q < n; q += kThreads) rows.back[q] = q + 2 < n ? -INFINITY : 0;
    __syncthreads();
    for (int64_t t = sample.steps; t-- > 0;) {
      const int64_t turn = (sample.steps - 1 - t) % 2;
      float* const back = rows.back + turn * stride;
      GiveShares(sample, rows, rows.forward + t * stride, back, dloss[i], to + t * x.c);
      if (t > 0) StepBack(sample, t, back, rows.back + (1 - turn) * stride);
    }
  }
}

// in: log_probs, labels, input_lengths, label_lengths; out: loss.
const char* CtcLoss(const KernelArgs& args) {
  const CtcOperands x(args, 0);
  if (x.b == 0) return nullptr;
  return Launch({Stream(args), Blocks(x.b, 1)}, LossKernel, x, static_cast<float*>(args.workspace),
                args.out[0].as<float>());
}

// in: dloss, log_probs, labels, input_lengths, label_lengths; out: dlog_probs.
const char* CtcLossGrad(const KernelArgs& args) {
  const CtcOperands x(args, 1);
  float* const to = args.out[0].as<float>();
  if (const char* error = SetZero(Stream(args), to, x.b * x.t * x.c * sizeof(float))) return error;
  if (x.b * x.t * x.c == 0) return nullptr;
  return Launch({Stream(args), Blocks(x.b, 1)}, GradKernel, x, args.in[0].as<const float>(),
                static_cast<float*>(args.workspace), to);
}

size_t LossWorkspace(const KernelArgs& args) {
  const CtcOperands x(args, 0);
  return static_cast<size_t>(x.b * 2 * x.most_states()) * sizeof(float);
}
size_t GradWorkspace(const KernelArgs& args) {
  const CtcOperands x(args, 1);
  return static_cast<size_t>(x.b * GradRows::Floats(x)) * sizeof(float);
}

}  // namespace
}  // namespace ctc

KernelList CtcKernels() {
  return {{"ctc_loss", DType::kFloat32, ctc::CtcLoss, ctc::LossWorkspace},
          {"ctc_loss_grad", DType::kFloat32, ctc::CtcLossGrad, ctc::GradWorkspace}};
}

}  // namespace oneflow::cuda
