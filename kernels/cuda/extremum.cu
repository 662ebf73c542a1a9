// The gradient of reduce_max and reduce_min, which every element that is the extremum y gets an equal share of:
// extremum_count says how many there are, extremum_grad gives them dy / n and all others 0.
//
// Elements of x are numbered by output and by term, the faster of the two being the one that is x's inner dimension, so
// that neighbouring threads read neighbours.
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

Groups ByAxes(const TensorArg& x, const AttrMap& attrs) {
  std::vector<bool> is_reduced(x.rank, false);
  for (const int64_t axis : attrs.Ints("axes")) is_reduced[axis < 0 ? axis + x.rank : axis] = true;
  return Groups(x, is_reduced);
}

constexpr char kTooManyDims[] = "a reduction has more than 8 merged dimensions";

template <int kTeam>
__global__ void TeamPerOutput(StridedDims kept, StridedDims reduced, int64_t outputs, int64_t terms, const float* x,
                              const float* y, float* n) {
  const Team<kTeam> team;
  for (int64_t output = team.first(); output < outputs; output += team.stride()) {
    const float* const base = x + Offset(kept, output);
    const float extremum = y[output];
    double count = 0;
    for (int64_t term = team.member(); term < terms; term += kTeam) {
      if (base[Offset(reduced, term)] == extremum) count += 1;
    }
    count = Reduce<kTeam>(count, SumOf());
    if (team.member() == 0) n[output] = static_cast<float>(count);
  }
}

__global__ void ThreadPerOutput(StridedDims kept, StridedDims reduced, int64_t outputs, int64_t terms, const float* x,
                                const float* y, float* n) {
  for (int64_t output = FirstIndex(); output < outputs; output += IndexStride()) {
    const float* const base = x + Offset(kept, output);
    const float extremum = y[output];
    double count = 0;
    for (int64_t term = 0; term < terms; ++term) {
      if (base[Offset(reduced, term)] == extremum) count += 1;
    }
    n[output] = static_cast<float>(count);
  }
}

// in: x, y; out: n.
const char* ExtremumCount(const KernelArgs& args) {
  const Groups groups = ByAxes(args.in[0], *args.attrs);
  if (!groups.is_valid) return kTooManyDims;
  const int64_t outputs = groups.outputs;
  if (outputs == 0) return nullptr;
  const auto launch = [&](auto kernel, int64_t outputs_per_block) {
    return Launch({Stream(args), Blocks(outputs, outputs_per_block)}, kernel, groups.kept, groups.reduced, outputs,
                  groups.terms, args.in[0].as<const float>(), args.in[1].as<const float>(), args.out[0].as<float>());
  };
  // Neighbouring threads read neighbours, unless there are so few outputs that this would leave most of the GPU idle.
  if (!groups.inner_reduced && outputs >= kMaxBlocks) return launch(ThreadPerOutput, kThreads);
  return groups.terms <= kWarpColumns ? launch(TeamPerOutput<kWarp>, kThreads / kWarp)
                                      : launch(TeamPerOutput<kThreads>, 1);
}

// in: dy, x, y, n; out: dx.
const char* ExtremumGrad(const KernelArgs& args) {
  const Groups groups = ByAxes(args.in[1], *args.attrs);
  if (!groups.is_valid) return kTooManyDims;
  const StridedDims kept = groups.kept, reduced = groups.reduced;
  const int64_t outputs = groups.outputs, terms = groups.terms;
  const bool inner_reduced = groups.inner_reduced;
  const float* const dy = args.in[0].as<const float>();
  const float* const x = args.in[1].as<const float>();
  const float* const y = args.in[2].as<const float>();
  const float* const n = args.in[3].as<const float>();
  float* const dx = args.out[0].as<float>();
  return ForEach(Stream(args), args.in[1].count, [=] __device__(int64_t i) {
    const int64_t output = inner_reduced ? i / terms : i % outputs;
    const int64_t term = inner_reduced ? i % terms : i / outputs;
    const int64_t at = Offset(kept, output) + Offset(reduced, term);
    dx[at] = x[at] == y[output] ? dy[output] / n[output] : 0.0f;
  });
}

}  // namespace

KernelList ExtremumKernels() {
  return {{"extremum_count", DType::kFloat32, ExtremumCount}, {"extremum_grad", DType::kFloat32, ExtremumGrad}};
}

}  // namespace oneflow::cuda
