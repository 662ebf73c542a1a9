// Signatures that hold and are not claimed.
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "test/laws/sbp_law.h"
#include "test/sbp/rules/calls.h"
#include "test/support/paths.h"

namespace oneflow::testing {
namespace {

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
  static States Unclaimed(SbpLaw& law, const std::vector<Sbp>& inputs, const std::vector<Signature>& claimed) {
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
  ForEachLaw([&](SbpLaw& law) {
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
                                     "lstm_grad", "packed_matmul_cross_entropy_grad", "sum_packed_matmul"))
      << "of all others every layout was tried";
}

}  // namespace
}  // namespace oneflow::testing
