// The SBP law (sbp_law.h).
#include "test/laws/sbp_law.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_join.h"
#include "test/sbp/rules/calls.h"

namespace oneflow::testing {
namespace {

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
    // They speak of ranks, not of tensors.
    if (name == "replica_digest" || name == "assert_replicas" || name == "addends") continue;
    if (HasKernel(name)) {
      EXPECT_TRUE(covered.count(name)) << name;
    } else {
      without_kernel.insert(name);
    }
  }
  // What the compiler dissolves, and what the runtime does itself.
  EXPECT_EQ(without_kernel, (std::set<std::string>{"to", "stop_gradient", "boxing", "fetch", "variable", "read_data",
                                                   "choose_codes", "from_tier", "to_tier", "store_in_tier"}));
}

TEST_F(SbpLawTest, EverySignatureHoldsOnOneAxis) {
  int checked = 0;
  ForEachLaw([&](SbpLaw& law) {
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
  ForEachLaw([&](SbpLaw& law) {
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
      SbpLaw law(*ops_.Find(wrong.op), *it);
      ASSERT_OK(law.Init());
      EXPECT_THAT(law.Check(wrong.sizes, per_axis), StatusIs(absl::StatusCode::kInternal, ::testing::_));
      ++refused;
    }
  }
  EXPECT_GE(refused, 12);
}

}  // namespace
}  // namespace oneflow::testing
