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
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_join.h"
#include "kernels/device.h"
#include "oneflow_core/ops/ops.h"
#include "sbp/signatures.h"
#include "sbp/slices.h"
#include "test/kernels/harness.h"
#include "test/sbp/rules/calls.h"
#include "test/support/grid.h"
#include "test/support/op_facts.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kSbpSeed = 20240608;
// Not the first step, nor the first micro-batch: for what random ops draw.
constexpr RefContext kContext = {5, 2};
// Parts are summed in another order than the whole.
constexpr double kTolerance = 1e-5;

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
int AddendOf(const DistType& dist, int index) {
  return Projected(dist, index, [](const Sbp& sbp) { return sbp.is_partial(); });
}
// The rank that holds the first copy of what `index` holds.
int FirstCopyOf(const DistType& dist, int index) {
  return Projected(dist, index, [](const Sbp& sbp) { return !sbp.is_broadcast(); });
}

RefTensor RandomLike(const RefTensor& x, double spread, std::mt19937_64& random) {
  RefTensor y = x;
  std::uniform_real_distribution<double> real(-spread, spread);
  std::uniform_int_distribution<int> integer(-50, 50);
  for (double& v : y.values) v = IsFloating(x.dtype) ? real(random) : integer(random);
  return Rounded(std::move(y));
}

// What each rank holds of `whole`; addends are up to `spread`.
Tensors CutUp(const RefTensor& whole, const DistType& dist, double spread, std::mt19937_64& random) {
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
absl::StatusOr<RefTensor> PutTogether(const Tensors& shards, const DistType& dist, const RefTensor& like) {
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

absl::Status CheckNear(const RefTensor& got, const RefTensor& want, double tolerance) {
  for (int64_t i = 0; i < want.count(); ++i) {
    const double a = got.values[i], b = want.values[i];
    if (std::abs(a - b) <= tolerance * (1 + std::abs(b))) continue;
    return absl::InternalError(absl::StrCat("element ", i, " is ", a, ", of the whole it is ", b));
  }
  return absl::OkStatus();
}

// One op on whole tensors, and in parts.
class Law {
 public:
  Law(const OpDef& op, const OpCase& c) : op_(op), case_(c), device_(MakeCpuDevice(1)), random_(kSbpSeed) {
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
    return Signatures1d(op_, TypesOf(case_.inputs), output_types_, case_.attrs, axis_size);
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
      Law law(*ops_.Find(c.op), c);
      ASSERT_OK(law.Init());
      visit(law);
      if (HasFatalFailure()) return;
    }
  }

  const OpRegistry ops_;
  const std::vector<OpCase> cases_;
  const KernelTable kernels_;
};

// The widest addends among the operands, in bytes of an element; 0: none are floating addends.
size_t WidestAddends(const std::vector<TensorType>& types, const std::vector<Sbp>& sbps) {
  size_t widest = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    if (IsFloating(types[i].dtype) && sbps[i] == Sbp::Partial()) widest = std::max(widest, SizeOf(types[i].dtype));
  }
  return widest;
}

// A sum is taken before it is narrowed: no op makes narrower addends of those that it is given. Every example, and
// every way to give some of its operands another floating type that the op takes.
TEST_F(SbpLawTest, AddendsAreNeverNarrowed) {
  int with_addends = 0, narrowing = 0;  // signatures; calls of which an output is narrower than an operand
  const auto check = [&](const OpCase& c, const std::vector<TensorType>& inputs) {
    const OpDef& op = *ops_.Find(c.op);
    const absl::StatusOr<std::vector<TensorType>> outputs = op.infer({inputs, c.attrs});
    if (!outputs.ok()) return;
    ASSERT_OK_AND_ASSIGN(const std::vector<Signature> signatures, Signatures1d(op, inputs, *outputs, c.attrs, 2));
    for (const TensorType& output : *outputs) {
      for (const TensorType& input : inputs) {
        const bool both = IsFloating(output.dtype) && IsFloating(input.dtype);
        narrowing += both && SizeOf(output.dtype) < SizeOf(input.dtype) ? 1 : 0;
      }
    }
    for (const Signature& signature : signatures) {
      const size_t widest = WidestAddends(inputs, signature.inputs);
      for (size_t i = 0; i < outputs->size(); ++i) {
        const DType dtype = (*outputs)[i].dtype;
        if (widest == 0 || !IsFloating(dtype) || signature.outputs[i] != Sbp::Partial()) continue;
        ++with_addends;
        EXPECT_GE(SizeOf(dtype), widest) << ToString(c) << " as " << signature.ToString() << ", output " << i;
      }
    }
  };
  for (const OpCase& c : cases_) {
    std::vector<TensorType> inputs = TypesOf(c.inputs);
    if (inputs.size() > 6) continue;  // 3^6 combinations; the optimizers' operands are variables
    std::vector<size_t> floating;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (IsFloating(inputs[i].dtype)) floating.push_back(i);
    }
    const DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
    for (int code = 0, end = static_cast<int>(std::pow(3, floating.size())); code < end; ++code) {
      for (int i = 0, rest = code; i < static_cast<int>(floating.size()); ++i, rest /= 3) {
        inputs[floating[i]].dtype = kTypes[rest % 3];
      }
      check(c, inputs);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(with_addends, 500);
  EXPECT_GT(narrowing, 0) << "or no op narrows anything, and nothing was tested";
}

TEST_F(SbpLawTest, EveryOpWithAKernelHasACase) {
  std::set<std::string> covered, without_kernel;
  for (const OpCase& c : cases_) {
    EXPECT_NE(ops_.Find(c.op), nullptr) << c.op;
    covered.insert(c.op);
  }
  for (const auto& [name, op] : ops_.all()) {
    if (name == "replica_digest" || name == "assert_replicas") continue;  // speak of ranks, not of tensors
    if (HasKernel(name)) {
      EXPECT_TRUE(covered.count(name)) << name;
    } else {
      without_kernel.insert(name);
    }
  }
  // What the compiler dissolves, and what the runtime does itself.
  EXPECT_EQ(without_kernel, (std::set<std::string>{"to", "boxing", "fetch", "variable", "read_data"}));
}

TEST_F(SbpLawTest, EverySignatureHoldsOnOneAxis) {
  int checked = 0;
  ForEachLaw([&](Law& law) {
    for (const int size : {2, 3, 4}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<Signature> signatures, law.Signatures(size));
      for (const Signature& signature : signatures) {
        EXPECT_OK(law.Check({size}, {signature}));
        ++checked;
      }
    }
  });
  EXPECT_GT(checked, 3 * static_cast<int>(cases_.size()));  // more than all-B alone
}

TEST_F(SbpLawTest, EveryPairOfSignaturesThatMayBeCombinedHoldsOnTwoAxes) {
  int checked = 0, nested = 0;
  ForEachLaw([&](Law& law) {
    for (const std::vector<int>& sizes : {std::vector<int>{2, 2}, {2, 3}, {4, 3}}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<Signature> outer, law.Signatures(sizes[0]));
      ASSERT_OK_AND_ASSIGN(const std::vector<Signature> inner, law.Signatures(sizes[1]));
      for (const Signature& first : outer) {
        for (const Signature& second : inner) {
          if (!law.MayBeCombined(sizes, {first, second})) continue;
          EXPECT_OK(law.Check(sizes, {first, second}));
          ++checked;
          nested += first == second && second.reason != "broadcast";
        }
      }
    }
  });
  EXPECT_GT(checked, 3 * static_cast<int>(cases_.size()));
  EXPECT_GT(nested, 300);
}

// The law is worth what it refuses: claims that look right and are not.
TEST_F(SbpLawTest, CatchesSignaturesThatDoNotHold) {
  int refused = 0;
  for (const OpFacts& facts : AllOpFacts()) {
    for (const WrongSignature& wrong : facts.wrong_signatures) {
      SCOPED_TRACE(absl::StrCat(wrong.op, " as ", absl::StrJoin(wrong.per_axis, " x ")));
      std::vector<Signature> per_axis;
      for (const std::string& text : wrong.per_axis) {
        ASSERT_OK_AND_ASSIGN(per_axis.emplace_back(), ParseSignature(text));
      }
      const auto it = std::find_if(cases_.begin(), cases_.end(), [&](const OpCase& c) { return c.op == wrong.op; });
      ASSERT_NE(it, cases_.end());
      Law law(*ops_.Find(wrong.op), *it);
      ASSERT_OK(law.Init());
      EXPECT_THAT(law.Check(wrong.sizes, per_axis), StatusIs(absl::StatusCode::kInternal, ::testing::_));
      ++refused;
    }
  }
  EXPECT_GE(refused, 12);
}

// The other way round: every layout of the inputs is tried (of the few ops of five inputs and more the first 5,000 of a
// case, and the test names these ops), and what holds without being claimed is listed, with the
// reason why it is not claimed, in test/golden/sbp/unclaimed.txt. A layout holds if it does so in every case of the op
// with inputs of these ranks, on two and on three ranks, for several divisions into addends. Inputs are B, S or P(sum).
// Two things hold always and are not listed: copies are also their own maximum and minimum.
class UnclaimedTest : public SbpLawTest {
 protected:
  static constexpr int kMostLayouts = 5000;  // of the inputs of one case
  static constexpr double kSpreads[] = {2, 2, 8, 30};

  using States = std::vector<std::set<std::string>>;  // by output

  inline static std::set<std::string> cut_short_;  // ops with a case of more layouts than that

  static std::set<std::string> KnownWithReasons() {
    std::set<std::string> known;
    std::ifstream file(std::string(SourceDir()) + "/test/golden/sbp/unclaimed.txt");
    EXPECT_TRUE(file.good());
    for (std::string line; std::getline(file, line);) {
      if (line[0] == '#') continue;
      const size_t reason = line.find("  # ");
      EXPECT_NE(reason, std::string::npos) << "without a reason: " << line;
      known.insert(line.substr(0, reason));
    }
    return known;
  }

  // Calls visit(inputs) for every layout of the inputs, all-B first.
  template <typename Visit>
  static void ForEachLayout(const OpCase& c, Visit visit) {
    std::vector<std::vector<Sbp>> states;
    for (const RefTensor& input : c.inputs) {
      states.push_back({Sbp::Broadcast(), Sbp::Partial()});
      for (size_t d = 0; d < input.dims.size(); ++d) states.back().push_back(Sbp::Split(static_cast<int>(d)));
    }
    std::vector<size_t> index(states.size(), 0);
    for (int layouts = 0; layouts < kMostLayouts; ++layouts) {
      std::vector<Sbp> inputs;
      for (size_t i = 0; i < states.size(); ++i) inputs.push_back(states[i][index[i]]);
      visit(inputs);
      size_t i = states.size();
      while (i > 0 && ++index[i - 1] == states[i - 1].size()) index[--i] = 0;
      if (i == 0) return;
    }
    cut_short_.insert(c.op);
  }

  // What the outputs are, by all trials; states that are claimed or follow from others left out.
  static States Unclaimed(Law& law, const std::vector<Sbp>& inputs, const std::vector<Signature>& claimed) {
    States states(law.num_outputs());
    for (const double& spread : kSpreads) {
      law.SetSpreadOfAddends(spread);
      for (const int size : {2, 3}) {
        const std::vector<std::vector<Sbp>> holding = law.StatesThatHold(size, inputs);
        if (holding.empty()) return {};
        for (size_t i = 0; i < states.size(); ++i) {
          std::set<std::string> now;
          for (const Sbp& state : holding[i]) now.insert(state.ToString());
          if (&spread == kSpreads && size == 2) {
            states[i] = now;
          } else {
            std::set<std::string> both;
            std::set_intersection(states[i].begin(), states[i].end(), now.begin(), now.end(),
                                  std::inserter(both, both.end()));
            states[i] = both;
          }
          if (states[i].empty()) return {};
        }
      }
    }
    for (size_t i = 0; i < states.size(); ++i) {
      if (law.IsZero(i)) states[i].clear();  // says nothing
      if (states[i].count("B") > 0) {
        states[i].erase("P(max)");
        states[i].erase("P(min)");
      }
      for (const Signature& signature : claimed) {
        if (signature.inputs == inputs) states[i].erase(signature.outputs[i].ToString());
      }
    }
    return states;
  }
};

TEST_F(UnclaimedTest, WhatHoldsWithoutBeingClaimedIsKnownAndHasAReason) {
  std::map<std::string, std::set<std::string>> found;  // by op, ranks of the inputs and their layout
  ForEachLaw([&](Law& law) {
    const OpCase& c = law.op_case();
    if (c.inputs.empty()) return;
    std::vector<Signature> claimed;
    for (const int size : {2, 3, 4}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<Signature> some, law.Signatures(size));
      claimed.insert(claimed.end(), some.begin(), some.end());
    }
    const std::string ranks =
        absl::StrJoin(c.inputs, ",", [](std::string* out, const RefTensor& x) { absl::StrAppend(out, x.dims.size()); });
    ForEachLayout(c, [&](const std::vector<Sbp>& inputs) {
      const std::string key = absl::StrCat(c.op, " [", ranks, "] ", ToString(NdSbp(inputs)), " -> ");
      const States states = Unclaimed(law, inputs, claimed);
      std::set<std::string> now;
      for (size_t i = 0; i < states.size(); ++i) {
        for (const std::string& state : states[i]) now.insert(absl::StrCat(i, ":", state));
      }
      const auto [it, first] = found.emplace(key, now);
      if (first) return;
      std::set<std::string> both;
      std::set_intersection(it->second.begin(), it->second.end(), now.begin(), now.end(),
                            std::inserter(both, both.end()));
      it->second = both;
    });
  });
  std::set<std::string> listed;
  for (const auto& [key, states] : found) {
    for (const std::string& state : states) listed.insert(key + state);
  }
  EXPECT_THAT(listed, ::testing::ContainerEq(KnownWithReasons()));
  EXPECT_THAT(cut_short_,
              ::testing::ElementsAre("add_layer_norm_grad", "attention_grad", "batch_norm_dx", "batch_norm_relu_dx",
                                     "packed_matmul_cross_entropy_grad", "sum_packed_matmul"))
      << "of all others every layout was tried";
}

}  // namespace
}  // namespace oneflow::testing
