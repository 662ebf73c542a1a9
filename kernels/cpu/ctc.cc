// ctc_loss and its gradient, a sample at a time, in logarithms:
//
//   forward   A_t(q) = log sum of exp A_{t-1} over where a path comes from, + log p_t(class of q);  loss: -A of the end
//   backward  B_t(q) likewise from the end, without p_t;  dlog p_t(k) = -dloss * the share of exp(A + B) in states of k
//
// Rows are moved so that their largest element is 0: what they are moved by is summed in double precision, so that long
// samples lose no digits, and shares do not need it.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention_head.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vec.h"
#include "kernels/ctc_paths.h"

namespace oneflow::cpu {
namespace ctc {
namespace {

constexpr int64_t kBefore = 2;  // elements of -infinity before and behind a row, where paths do not come from

// A thread's memory: rows of states.
struct Rows {
  Rows(const CtcOperands& x, int64_t num_rows) : stride(x.most_states() + 2 * kBefore), count(num_rows + 3) {}
  size_t bytes() const { return static_cast<size_t>(stride * count) * sizeof(float); }
  // The last three are for more than forward rows.
  float* Row(void* memory, int64_t row) const { return static_cast<float*>(memory) + row * stride + kBefore; }
  void Clear(void* memory) const {
    std::fill(static_cast<float*>(memory), static_cast<float*>(memory) + stride * count, -INFINITY);
  }
  int64_t stride, count;
};

OF_INLINE F32s LogSumExp(F32s a, F32s b, F32s c) {
  const F32s top = Max(Max(a, b), c), none = Splat(-INFINITY);
  const F32s shift = top == none ? Splat(0) : top;
  const F32s sum = Exp(a - shift) + Exp(b - shift) + Exp(c - shift);
  return top == none ? none : shift + LogOfSums(sum);
}

// Moves a row; gives by how much.
float Normalize(float* row, int64_t n) {
  const float top = MaxOfRow(row, n);
  if (top == -INFINITY) return 0;
  VecLoop(n, [&](int64_t i, auto lanes) { Store(row + i, Load(row + i, lanes) - top, lanes); });
  return top;
}

// What is added where a path comes from two states before: 0, or -infinity where it cannot. So also at `n` and behind.
void FindSkips(const CtcSample& x, float* skips) {
  for (int64_t q = 0; q < x.states(); ++q) skips[q] = x.Skips(q) ? 0 : -INFINITY;
}

// The rows A, in turns of `kept` rows of memory. Gives the logarithm of the sum over all paths.
double WalkForward(const CtcSample& x, const Rows& rows, int64_t kept, const float* skips, float* probs, void* memory) {
  const int64_t n = x.states();
  double moved = 0;
  for (int64_t t = 0; t < x.steps; ++t) {
    float* const row = rows.Row(memory, t % kept);
    if (t == 0) {
      std::fill(row, row + n, -INFINITY);
      for (int64_t q = 0; q < std::min<int64_t>(2, n); ++q) row[q] = x.LogProb(0, q);
    } else {
      const float* const before = rows.Row(memory, (t - 1) % kept);
      for (int64_t q = 0; q < n; ++q) probs[q] = x.LogProb(t, q);
      VecLoop(n, [&](int64_t q, auto lanes) {
        const F32s skipped = Load(before + q - 2, lanes) + Load(skips + q, lanes);
        const F32s sum = LogSumExp(Load(before + q, lanes), Load(before + q - 1, lanes), skipped);
        Store(row + q, sum + Load(probs + q, lanes), lanes);
      });
    }
    moved += Normalize(row, n);
  }
  const float* const last = rows.Row(memory, (x.steps - 1) % kept);
  return moved + std::log(std::exp(static_cast<double>(last[n - 1])) +
                          (n > 1 ? std::exp(static_cast<double>(last[n - 2])) : 0));
}

// f(sample's number, sample, memory) for all samples. Null, or what is wrong with one.
template <typename F>
const char* ForSamples(const KernelArgs& args, const CtcOperands& x, const Rows& rows, F f) {
  for (int64_t i = 0; i < x.b; ++i) {
    if (!x.Sample(i).good) return "ctc_loss: a length is out of range, or a label is no class or the blank";
  }
  ParallelForThread(x.b, 1, args.threads, [&](int64_t begin, int64_t end, int thread) {
    char* const memory = static_cast<char*>(args.workspace) + static_cast<size_t>(thread) * rows.bytes();
    rows.Clear(memory);
    for (int64_t i = begin; i < end; ++i) f(i, x.Sample(i), memory);
  });
  return nullptr;
}

// in: log_probs, labels, input_lengths, label_lengths; out: loss.
const char* CtcLoss(const KernelArgs& args) {
  const CtcOperands x(args, 0);
  const Rows rows(x, 2);
  float* const losses = args.out[0].as<float>();
  return ForSamples(args, x, rows, [&](int64_t i, const CtcSample& sample, char* memory) {
    float* const skips = rows.Row(memory, 2);
    FindSkips(sample, skips);
    double loss = sample.num_labels == 0 ? 0 : INFINITY;  // of no step
    if (sample.steps > 0) loss = -WalkForward(sample, rows, 2, skips, rows.Row(memory, 3), memory);
    losses[i] = x.zero_infinity && std::isinf(loss) ? 0 : static_cast<float>(loss);
  });
}

// A row B of the step before, from that of a step, in its place.
void StepBack(const CtcSample& x, int64_t t, const float* skips, float* probs, float* row) {
  const int64_t n = x.states();
  // A row may be read two states behind the one that is written, so what is written lies apart.
  for (int64_t q = 0; q < n; ++q) row[q] += x.LogProb(t, q);
  std::copy(row, row + n + kBefore, probs);
  VecLoop(n, [&](int64_t q, auto lanes) {
    const F32s skipped = Load(probs + q + 2, lanes) + Load(skips + q + 2, lanes);
    Store(row + q, LogSumExp(Load(probs + q, lanes), Load(probs + q + 1, lanes), skipped), lanes);
  });
  Normalize(row, n);
}

// Adds -dloss times the shares of states to the gradient of a step.
void AddShares(const CtcSample& x, const float* forward, const float* backward, float dloss, float* weights,
               float* to) {
  const int64_t n = x.states();
  VecLoop(n, [&](int64_t q, auto lanes) {
    Store(weights + q, Load(forward + q, lanes) + Load(backward + q, lanes), lanes);
  });
  const float top = MaxOfRow(weights, n);
  F32s sum = Splat(0);
  VecLoop(n, [&](int64_t q, auto lanes) {
    const F32s weight = Keep(Exp(Load(weights + q, lanes) - top), lanes);
    sum += weight;
    Store(weights + q, weight, lanes);
  });
  const float factor = -dloss / Sum(sum);
  for (int64_t q = 0; q < n; ++q) to[x.Class(q)] += factor * weights[q];
}

// in: dloss, log_probs, labels, input_lengths, label_lengths; out: dlog_probs.
const char* CtcLossGrad(const KernelArgs& args) {
  const CtcOperands x(args, 1);
  const Rows rows(x, x.t);
  const float* const dloss = args.in[0].as<const float>();
  return ForSamples(args, x, rows, [&](int64_t i, const CtcSample& sample, char* memory) {
    float* const to = args.out[0].as<float>() + i * x.t * x.c;
    std::fill(to, to + x.t * x.c, 0.0f);
    if (sample.steps == 0) return;
    rows.Clear(memory);
    float *const skips = rows.Row(memory, x.t), *const probs = rows.Row(memory, x.t + 1),
                 *const back = rows.Row(memory, x.t + 2);
    FindSkips(sample, skips);
    const int64_t n = sample.states();
    if (std::isinf(WalkForward(sample, rows, x.t, skips, probs, memory))) {
      std::fill(to, to + sample.steps * x.c, x.zero_infinity ? 0.0f : NAN);
      return;
    }
    for (int64_t q = std::max<int64_t>(0, n - 2); q < n; ++q) back[q] = 0;
    for (int64_t t = sample.steps; t-- > 0;) {
      AddShares(sample, rows.Row(memory, t), back, dloss[i], probs, to + t * x.c);
      if (t == 0) break;
      StepBack(sample, t, skips, probs, back);
    }
  });
}

size_t LossWorkspace(const KernelArgs& args) { return args.threads * Rows(CtcOperands(args, 0), 2).bytes(); }
size_t GradWorkspace(const KernelArgs& args) {
  const CtcOperands x(args, 1);
  return args.threads * Rows(x, x.t).bytes();
}

}  // namespace
}  // namespace ctc

KernelList CtcKernels() {
  return {{"ctc_loss", DType::kFloat32, ctc::CtcLoss, ctc::LossWorkspace},
          {"ctc_loss_grad", DType::kFloat32, ctc::CtcLossGrad, ctc::GradWorkspace}};
}

}  // namespace oneflow::cpu
