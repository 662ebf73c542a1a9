// The law of long samples: tokens that lie split along an axis for sequences, attended to in a ring or by heads, leave
// every loss as one device has it. A ring moves the bytes of its formula, and each rank's part of the work is the same.
#include <algorithm>

#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"
#include "test/support/op_facts.h"

namespace oneflow {
namespace {

class ContextLawTest : public testing::LayoutsLaw {
 protected:
  std::string OfText(const std::string& model) const {
    return absl::StrCat("model { ", model, " } data { text { path: '", text_,
                        "' } } train { batch_size: 4 optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 } schedule { "
                        "learning_rate: 3e-3 } }");
  }
  // By each size of the axis in a ring and by heads, beside other fields.
  static std::vector<std::vector<std::string>> Rings(const std::vector<std::string>& meshes,
                                                     const std::vector<std::string>& more = {}) {
    std::vector<std::vector<std::string>> layouts;
    for (const std::string& mesh : meshes) {
      for (const char* const way : {"ring", "all-to-all"}) {
        layouts.push_back({absl::StrCat("mesh={", mesh, "}"), absl::StrCat("sequence.attention=", way)});
        layouts.back().insert(layouts.back().end(), more.begin(), more.end());
      }
    }
    return layouts;
  }
};

// 3 and 5 leave chunks of unequal lengths.
const std::vector<std::string> kRingSizes = {"cp:2", "cp:3", "cp:4", "cp:5", "cp:8"};

TEST_F(ContextLawTest, CausalAttentionWithDropout) {
  ExpectSameUnder(OfText("gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 26 dropout: 0.1 }"),
                  Rings(kRingSizes));
}

TEST_F(ContextLawTest, HeadsThatShareKeys) {
  ExpectSameUnder(OfText("llama { vocabulary: 128 layers: 2 width: 24 heads: 6 kv_heads: 3 hidden: 40 context: 24 }"),
                  Rings(kRingSizes));
  ExpectSameUnder(OfText("llama { vocabulary: 128 layers: 2 width: 24 heads: 4 kv_heads: 1 hidden: 40 context: 25 }"),
                  Rings(kRingSizes));
}

// Of windows that reach over no, one and most chunks; every second layer of this model sees all.
TEST_F(ContextLawTest, WindowsAndCaps) {
  for (const int window : {1, 2, 5, 9, 20}) {
    ExpectSameUnder(OfText(absl::StrCat("gemma { vocabulary: 128 layers: 2 width: 24 heads: 4 kv_heads: 2 head_width: "
                                        "6 hidden: 40 context: 24 window: ",
                                        window, " }")),
                    Rings({"cp:2", "cp:4", "cp:5"}));
  }
}

TEST_F(ContextLawTest, AttentionThatSeesAll) {
  ExpectSameUnder(OfText("bert { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 26 }"), Rings(kRingSizes));
}

TEST_F(ContextLawTest, BesideOtherAxes) {
  const std::string gpt = OfText("gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 26 dropout: 0.1 }");
  ExpectSameUnder(gpt, Rings({"cp:2 tp:2", "dp:2 cp:2", "dp:2 cp:3", "ep:2 cp:2", "dp:2 cp:2 tp:2", "cp:4 tp:2"}));
  ExpectSameUnder(gpt, Rings({"dp:2 cp:2", "cp:4"}, {"zero={stage:3}", "recompute.what=layers"}));
  ExpectSameUnder(gpt, Rings({"dp:2 cp:2", "cp:4"}, {"train.micro_batches=2", "recompute.what=attention"}));
  ExpectSameUnder(gpt, Rings({"pp:2 cp:2"}, {"train.micro_batches=4", "pipeline={schedule:'1f1b'}"}));
  ExpectSameUnder(gpt, Rings({"axes{name:'a' size:2 role:'sequence'} axes{name:'b' size:2 role:'sequence'}"}));
}

// Two axes: heads along one, a ring along the other; and whatever cost chooses.
TEST_F(ContextLawTest, ByHeadsAndInARingAtOnce) {
  const std::string gpt = OfText("gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 24 dropout: 0.1 }");
  const std::string two = "mesh={axes{name:'a' size:2 role:'sequence'} axes{name:'b' size:2 role:'sequence'}}";
  const std::string three = "mesh={axes{name:'a' size:3 role:'sequence'} axes{name:'b' size:2 role:'sequence'}}";
  ExpectSameUnder(gpt, {{two}, {two, "sequence.attention=both"}, {three}, {three, "sequence.attention=both"}});
}

TEST_F(ContextLawTest, NarrowProducts) {
  first_bar_ = 2e-4;
  last_bar_ = 1e-3;
  ExpectSameUnder(
      OfText("gpt { vocabulary: 128 layers: 2 width: 64 heads: 2 context: 128 } } precision { compute: BF16"),
      Rings({"cp:2", "cp:3", "cp:4"}));
}

// The bytes of a layer between ranks, f32, all p of them together: in each of the p / 2 steps of a ring forward moves
// k and v, and q there and out and lse back; backward moves k, v there and dk, dv back, and dout, q, out, lse there and
// dq back. That is as many tensors of all tokens.
TEST_F(ContextLawTest, BytesAreThoseOfTheFormula) {
  steps_ = 2;
  constexpr int kTokens = 24, kWidth = 24, kHeads = 4, kLayers = 2, kBatch = 4;
  const std::string gpt = OfText(absl::StrCat("gpt { vocabulary: 128 layers: ", kLayers, " width: ", kWidth,
                                              " heads: ", kHeads, " context: ", kTokens, " }"));
  for (const int p : {2, 3, 4, 8}) {
    const auto bytes = [&](int layers) {
      std::string of = gpt;
      of.replace(of.find("layers: 2"), 9, absl::StrCat("layers: ", layers));
      const auto outcome = Run(of, {absl::StrCat("mesh={cp:", p, "}"), "sequence.attention=ring", "unfused=true",
                                    "train.optimizer={sgd{}}"});
      EXPECT_OK(outcome.status());
      if (!outcome.ok()) return 0.0;
      EXPECT_EQ(outcome->stats.bytes_moved, outcome->predicted_bytes);
      return static_cast<double>(outcome->stats.bytes_moved) / steps_;
    };
    const double tensor = 4.0 * kBatch * kTokens * kWidth, lse = 4.0 * kBatch * kTokens * kHeads;
    const double keys = 2 * tensor + 4 * tensor, queries = 2 * tensor + lse + 4 * tensor + lse;
    const double of_ring = p / 2 * (keys + queries);
    // Copies of a layer's weights: their gradients are summed.
    const double weights = 4.0 * (12 * kWidth * kWidth + 13 * kWidth);
    const double per_layer = bytes(3) - bytes(2);
    EXPECT_NEAR(per_layer, of_ring + 2 * (p - 1) * weights, 1e-6 * per_layer) << p;
  }
}

}  // namespace
}  // namespace oneflow
