// The SBP law: whatever signature an op claims, running the kernel on every rank's shards gives the shards of what the
// kernel gives on the whole. Checked for every op, every signature on one axis and every pair that may be used on two,
// on meshes that do not divide the sizes.
//
//   whole inputs --- kernel ---> whole outputs
//        | cut                        = ?
//   shards      --- kernels ---> shards, put together again
//
// Addends of a P are random, not a value and zeros, so that an op that is not linear cannot pass. Copies of a B have to
// be equal to the last bit: nothing ever brings replicas together again.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "oneflow_core/ops/ops.h"
#include "sbp/signatures.h"
#include "sbp/slices.h"
#include "test/kernels/harness.h"
#include "test/support/grid.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {

inline constexpr uint64_t kSbpSeed = 20240608;
// Not the first step, nor the first micro-batch: for what random ops draw.
inline constexpr RefContext kContext = {5, 2};
// Parts are summed in another order than the whole.
inline constexpr double kTolerance = 1e-5;

// Coordinates of rank `index` along the axes where `of(sbp)` holds, 0 on the others, as an index into the ranks.
template <typename Of>
int Projected(const DistType& dist, int index, Of of) {
  std::vector<int> at = dist.placement.Coordinates(index);
  for (size_t a = 0; a < at.size(); ++a) {
    if (!of(dist.sbp[a])) at[a] = 0;
  }
  return dist.placement.IndexAt(at);
}
// Equal for ranks that hold parts of the same addend.
inline int AddendOf(const DistType& dist, int index) {
  return Projected(dist, index, [](const Sbp& sbp) { return sbp.is_partial(); });
}
// The rank that holds the first copy of what `index` holds.
inline int FirstCopyOf(const DistType& dist, int index) {
  return Projected(dist, index, [](const Sbp& sbp) { return !sbp.is_broadcast(); });
}

inline RefTensor RandomLike(const RefTensor& x, double spread, std::mt19937_64& random) {
  RefTensor y = x;
  std::uniform_real_distribution<double> real(-spread, spread);
  std::uniform_int_distribution<int> integer(-50, 50);
  for (double& v : y.values) v = IsFloating(x.dtype) ? real(random) : integer(random);
  return Rounded(std::move(y));
}

// What each rank holds of `whole`; addends are up to `spread`.
inline Tensors CutUp(const RefTensor& whole, const DistType& dist, double spread, std::mt19937_64& random) {
  std::map<int, RefTensor> addends;  // by AddendOf; the first is what the random others leave
  addends[0] = whole;
  for (int rank = 0; rank < dist.placement.size(); ++rank) {
    const int addend = AddendOf(dist, rank);
    if (addends.count(addend) > 0) continue;
    addends[addend] = RandomLike(whole, spread, random);
    for (int64_t i = 0; i < whole.count(); ++i) addends[0].values[i] -= addends[addend].values[i];
  }
  addends[0] = Rounded(addends[0]);
  Tensors shards;
  for (int rank = 0; rank < dist.placement.size(); ++rank) {
    const Region region = ShardRegion(Shape(whole.dims), dist, rank);
    shards.push_back(Cut(addends[AddendOf(dist, rank)], region.start, region.extent));
  }
  return shards;
}

// The inverse. Internal if copies differ.
inline absl::StatusOr<RefTensor> PutTogether(const Tensors& shards, const DistType& dist, const RefTensor& like) {
  double (*combine)(double, double) = [](double a, double b) { return a + b; };
  for (const Sbp& sbp : dist.sbp) {
    if (!sbp.is_partial() || sbp.reduction() == Reduction::kSum) continue;
    combine = sbp.reduction() == Reduction::kMax ? [](double a, double b) { return std::max(a, b); }
                                                 : [](double a, double b) { return std::min(a, b); };
  }
  std::map<int, RefTensor> addends;
  for (int rank = 0; rank < dist.placement.size(); ++rank) {
    const int first = FirstCopyOf(dist, rank);
    if (shards[rank].values != shards[first].values) {
      return absl::InternalError(absl::StrCat("ranks ", first, " and ", rank, " hold copies that differ"));
    }
    RefTensor& addend = addends.emplace(AddendOf(dist, rank), Zeros(like.dims, like.dtype)).first->second;
    Paste(shards[rank], ShardRegion(Shape(like.dims), dist, rank).start, &addend);
  }
  RefTensor whole = addends.begin()->second;
  for (auto it = std::next(addends.begin()); it != addends.end(); ++it) {
    for (int64_t i = 0; i < whole.count(); ++i) whole.values[i] = combine(whole.values[i], it->second.values[i]);
  }
  return whole;
}

inline absl::Status CheckNear(const RefTensor& got, const RefTensor& want, double tolerance) {
  for (int64_t i = 0; i < want.count(); ++i) {
    const double a = got.values[i], b = want.values[i];
    if (std::abs(a - b) <= tolerance * (1 + std::abs(b))) continue;
    return absl::InternalError(absl::StrCat("element ", i, " is ", a, ", of the whole it is ", b));
  }
  return absl::OkStatus();
}

// One op on whole tensors, and in parts.
class SbpLaw {
 public:
  SbpLaw(const OpDef& op, const OpCase& c) : op_(op), case_(c), device_(MakeCpuDevice(1)), random_(kSbpSeed) {
    device_->BindThread();
  }

  absl::Status Init() {
    OF_ASSIGN_OR_RETURN(output_types_, op_.infer({TypesOf(case_.inputs), case_.attrs}));
    KernelCall call = {case_.op, case_.attrs, case_.inputs, {}};
    for (const TensorType& type : output_types_) call.outputs.push_back(Zeros(type.shape.dims(), type.dtype));
    call.context = kContext;
    OF_ASSIGN_OR_RETURN(whole_, RunKernel(*device_, call));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Signature>> Signatures(int axis_size) const {
    OF_ASSIGN_OR_RETURN(std::vector<Signature> signatures,
                        Signatures1d(op_, TypesOf(case_.inputs), output_types_, case_.attrs, axis_size));
    // Rings are of several ops: test/laws/context_law_test.cc.
    const auto is_ring = [](const Signature& signature) { return signature.is_ring; };
    signatures.erase(std::remove_if(signatures.begin(), signatures.end(), is_ring), signatures.end());
    return signatures;
  }
  bool MayBeCombined(const std::vector<int>& sizes, const std::vector<Signature>& per_axis) const {
    return CheckNdSignature(op_, TypesOf(case_.inputs), output_types_, case_.attrs, sizes, per_axis).ok();
  }

  // What holds along one axis if the inputs lie as `inputs`, found by trying: for every output the states that put the
  // whole together. Empty if the op does not take shards of these sizes, or if an output fits no state.
  std::vector<std::vector<Sbp>> StatesThatHold(int axis_size, const std::vector<Sbp>& inputs) {
    const Placement grid = GridOf({axis_size});
    const std::vector<std::vector<Sbp>> candidates = StatesOfShape(grid, inputs);
    if (candidates.empty()) return {};
    Signature first = {inputs, {}, ""};
    for (const std::vector<Sbp>& states : candidates) first.outputs.push_back(states[0]);
    const absl::StatusOr<std::vector<KernelResult>> results = Run(grid, {first});
    if (!results.ok()) return {};
    std::vector<std::vector<Sbp>> holding;
    for (size_t i = 0; i < candidates.size(); ++i) {
      holding.emplace_back();
      for (const Sbp& state : candidates[i]) {
        if (Compare(*results, &KernelResult::outputs, i, {grid, {state}}).ok()) holding.back().push_back(state);
      }
      if (holding.back().empty()) return {};
    }
    for (const int i : op_.mutates) {
      if (!Compare(*results, &KernelResult::inputs, i, {grid, {inputs[i]}}).ok()) return {};
    }
    return holding;
  }
  const OpCase& op_case() const { return case_; }
  void SetSpreadOfAddends(double spread) { spread_ = spread; }
  // Whether output `i` is zero everywhere, so that many states give it.
  bool IsZero(size_t i) const {
    const std::vector<double>& values = whole_.outputs[i].values;
    return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
  }
  size_t num_outputs() const { return output_types_.size(); }

  // Internal, saying which element of which operand on which mesh, unless the law holds.
  absl::Status Check(const std::vector<int>& sizes, const std::vector<Signature>& per_axis) {
    const absl::Status status = RunInParts(GridOf(sizes), per_axis);
    if (status.ok()) return status;
    const std::string signatures = absl::StrJoin(
        per_axis, " x ", [](std::string* out, const Signature& signature) { out->append(signature.ToString()); });
    return Annotate(status, absl::StrCat(ToString(case_), " as ", signatures, " on [", absl::StrJoin(sizes, ","), "]"));
  }

 private:
  struct Dists {
    std::vector<DistType> in, out;
  };
  Dists DistsOf(const Placement& grid, const std::vector<Signature>& per_axis) const {
    Dists dists = {std::vector<DistType>(case_.inputs.size(), {grid, {}}),
                   std::vector<DistType>(output_types_.size(), {grid, {}})};
    for (const Signature& signature : per_axis) {
      for (size_t i = 0; i < dists.in.size(); ++i) dists.in[i].sbp.push_back(signature.inputs[i]);
      for (size_t i = 0; i < dists.out.size(); ++i) dists.out[i].sbp.push_back(signature.outputs[i]);
    }
    return dists;
  }

  // For every output the states in which each rank's part has the shape that the op gives for its shards; empty if
  // there is none.
  std::vector<std::vector<Sbp>> StatesOfShape(const Placement& grid, const std::vector<Sbp>& inputs) const {
    std::vector<std::vector<Sbp>> states(output_types_.size());
    for (size_t i = 0; i < states.size(); ++i) {
      for (int d = 0; d < output_types_[i].shape.rank(); ++d) states[i].push_back(Sbp::Split(d));
      for (const Sbp& whole :
           {Sbp::Broadcast(), Sbp::Partial(), Sbp::Partial(Reduction::kMax), Sbp::Partial(Reduction::kMin)})
        states[i].push_back(whole);
    }
    for (int rank = 0; rank < grid.size(); ++rank) {
      std::vector<TensorType> shards;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const TensorType whole = TypeOf(case_.inputs[i]);
        shards.push_back({whole.dtype, ShardShape(whole.shape, {grid, {inputs[i]}}, rank)});
      }
      const absl::StatusOr<std::vector<TensorType>> made = op_.infer({shards, case_.attrs});
      if (!made.ok()) return {};
      for (size_t i = 0; i < states.size(); ++i) {
        const auto other = [&](const Sbp& state) {
          return ShardShape(output_types_[i].shape, {grid, {state}}, rank) != (*made)[i].shape;
        };
        states[i].erase(std::remove_if(states[i].begin(), states[i].end(), other), states[i].end());
        if (states[i].empty()) return {};
      }
    }
    return states;
  }

  absl::StatusOr<std::vector<KernelResult>> Run(const Placement& grid, const std::vector<Signature>& per_axis) {
    const auto [in, out] = DistsOf(grid, per_axis);
    std::vector<Tensors> shards;
    for (size_t i = 0; i < in.size(); ++i) shards.push_back(CutUp(case_.inputs[i], in[i], spread_, random_));

    std::vector<KernelResult> results;
    for (int rank = 0; rank < grid.size(); ++rank) {
      KernelCall call = {case_.op, case_.attrs, {}, {}};
      call.context = kContext;
      for (size_t i = 0; i < in.size(); ++i) {
        call.inputs.push_back(shards[i][rank]);
        call.input_parts.push_back({case_.inputs[i].dims, ShardRegion(Shape(case_.inputs[i].dims), in[i], rank).start});
      }
      for (size_t i = 0; i < out.size(); ++i) {
        const Region region = ShardRegion(output_types_[i].shape, out[i], rank);
        call.outputs.push_back(Zeros(region.extent, output_types_[i].dtype));
        call.output_parts.push_back({output_types_[i].shape.dims(), region.start});
      }
      OF_ASSIGN_OR_RETURN_AT(KernelResult result, RunKernel(*device_, call), absl::StrCat("rank ", rank));
      results.push_back(std::move(result));
    }
    return results;
  }

  absl::Status RunInParts(const Placement& grid, const std::vector<Signature>& per_axis) {
    OF_ASSIGN_OR_RETURN(const std::vector<KernelResult> results, Run(grid, per_axis));
    const auto [in, out] = DistsOf(grid, per_axis);
    for (size_t i = 0; i < out.size(); ++i) {
      OF_RETURN_IF_ERROR_AT(Compare(results, &KernelResult::outputs, i, out[i]), absl::StrCat("output ", i));
    }
    for (const int i : op_.mutates) {
      OF_RETURN_IF_ERROR_AT(Compare(results, &KernelResult::inputs, i, in[i]),
                            absl::StrCat("input ", i, " afterwards"));
    }
    return absl::OkStatus();
  }

  absl::Status Compare(const std::vector<KernelResult>& results, Tensors KernelResult::*operands, size_t index,
                       const DistType& dist) const {
    Tensors shards;
    for (const KernelResult& result : results) shards.push_back((result.*operands)[index]);
    const RefTensor& want = (whole_.*operands)[index];
    OF_ASSIGN_OR_RETURN(const RefTensor got, PutTogether(shards, dist, want));
    return CheckNear(got, want,
                     IsFloating(want.dtype) && case_.tolerance > 0 ? std::max(kTolerance, case_.tolerance) : 0);
  }

  const OpDef& op_;
  const OpCase& case_;
  const std::unique_ptr<DeviceContext> device_;
  std::mt19937_64 random_;
  double spread_ = 2;
  std::vector<TensorType> output_types_;
  KernelResult whole_;
};

// All examples of the ops that a CPU kernel runs.
class SbpLawTest : public ::testing::Test {
 protected:
  SbpLawTest() : ops_(StandardOps()), cases_(Examples(kSbpSeed)), kernels_(CpuKernels()) {}

  bool HasKernel(absl::string_view op) const {
    const auto& all = kernels_.all();
    return std::any_of(all.begin(), all.end(), [&](const Kernel& kernel) { return kernel.op == op; });
  }
  // Calls visit(case, law) for every case that a kernel can run.
  template <typename Visit>
  void ForEachLaw(Visit visit) {
    for (const OpCase& c : cases_) {
      if (!HasKernel(c.op)) continue;
      SCOPED_TRACE(absl::StrCat(ToString(c), ", seed ", kSbpSeed));
      SbpLaw law(*ops_.Find(c.op), c);
      ASSERT_OK(law.Init());
      visit(law);
      if (HasFatalFailure()) return;
    }
  }

  const OpRegistry ops_;
  const std::vector<OpCase> cases_;
  const KernelTable kernels_;
};

}  // namespace oneflow::testing
