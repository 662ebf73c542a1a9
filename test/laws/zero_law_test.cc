// The law of sharded data parallelism: state that lies in parts, gathered whenever and however often, changes no bit of
// any loss while gradients are summed in the same order. It moves the bytes, and takes the memory, of its formulas.
#include <algorithm>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"

namespace oneflow {
namespace {

class ZeroLawTest : public testing::LayoutsLaw {
 protected:
  ZeroLawTest() { steps_ = 6; }

  // Without clipping, whose norm is summed in parts as gradients lie.
  std::string WideGpt() const {
    return absl::StrCat(
        "model { gpt { vocabulary: 128 layers: 4 width: 64 heads: 4 context: 12 dropout: 0.1 } } data { ",
        "text { path: '", text_,
        "' } } train { batch_size: 8 optimizer { adamw { weight_decay: 0.1 } } schedule { "
        "learning_rate: 3e-3 } }");
  }

  // Expects the same losses to the bit under all of `fields`, each beside `layout`.
  void ExpectSameBits(const std::string& config, const std::vector<std::string>& layout,
                      const std::vector<std::vector<std::string>>& fields) {
    std::optional<std::vector<double>> losses;
    for (const std::vector<std::string>& more : fields) {
      std::vector<std::string> overrides = layout;
      overrides.insert(overrides.end(), more.begin(), more.end());
      SCOPED_TRACE(absl::StrJoin(overrides, " "));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome outcome, Run(config, overrides));
      if (!losses.has_value()) losses = outcome.losses;
      ASSERT_LT(losses->back(), losses->front()) << "the model learns nothing, so equality would say nothing";
      EXPECT_EQ(outcome.losses, *losses) << "bitwise";
      EXPECT_EQ(outcome.stats.bytes_moved, outcome.predicted_bytes);
      EXPECT_EQ(outcome.stats.register_bytes, outcome.planned_bytes);
      EXPECT_EQ(outcome.stats.scratch_bytes, 0) << "nothing asks for more than the plan has";
    }
  }
};

const std::vector<std::vector<std::string>> kStages = {{},
                                                       {"zero={stage:1}"},
                                                       {"zero={stage:2}"},
                                                       {"zero={stage:3}"},
                                                       {"zero={stage:3 prefetch:0}"},
                                                       {"zero={stage:3 prefetch:3 bucket_mb:0.02}"},
                                                       {"zero={stage:3 bucket_mb:1}"},
                                                       {"zero={stage:3 keep_gathered:true}"},
                                                       {"zero={stage:3}", "recompute.what=layers"},
                                                       {"zero={stage:3 prefetch:0 bucket_mb:0.1}", "unfused=true"}};

TEST_F(ZeroLawTest, AllStagesHaveTheSameLosses) {
  ExpectSameBits(WideGpt(), {"mesh={dp:2}"}, kStages);
  ExpectSameBits(WideGpt(), {"mesh={dp:4}"}, kStages);
}

TEST_F(ZeroLawTest, AndWithMicroBatchesThoseThatSumAlike) {
  const std::vector<std::string> layout = {"mesh={dp:4}", "train.micro_batches=2"};
  ExpectSameBits(WideGpt(), layout,
                 {{},
                  {"zero={stage:1}"},
                  {"zero={stage:2 sum_once:true}"},
                  {"zero={stage:3 sum_once:true}"},
                  {"zero={stage:3 sum_once:true prefetch:0 bucket_mb:0.05}", "recompute.what=layers"},
                  {"zero={stage:3 sum_once:true keep_gathered:true}"}});
  ExpectSameBits(WideGpt(), layout,
                 {{"zero={stage:2}"},
                  {"zero={stage:3}"},
                  {"zero={stage:3 prefetch:0 bucket_mb:0.05}"},
                  {"zero={stage:3 prefetch:2}", "recompute.what=layers"},
                  {"zero={stage:3 keep_gathered:true}"}});
}

// Beside tensor and pipeline parallelism, replicas of parts, and clipping; sums are of other addends there.
TEST_F(ZeroLawTest, AnyMeshTrainsAsOneDevice) {
  steps_ = 20;
  for (const std::string zero :
       {"zero={stage:1}", "zero={stage:2}", "zero={stage:3}", "zero={stage:3 prefetch:0 bucket_mb:0.01}"}) {
    ExpectSameUnder(Gpt(), {{"mesh={dp:2}", zero},
                            {"mesh={dp:3}", zero},  // uneven parts
                            {"mesh={dp:2 tp:2}", zero, "train.micro_batches=2"},
                            {"mesh={pp:2 dp:2}", zero, "train.micro_batches=4"},
                            {"mesh={pp:2 dp:2}", zero, "train.micro_batches=4", "pipeline={schedule:'interleaved'}"},
                            {"mesh={pp:2 dp:2}", zero, "train.micro_batches=4", "pipeline={schedule:'zb-h1'}"},
                            {"mesh={axes{name:'r' size:2 role:'batch'} axes{name:'s' size:2 role:'batch'}}",
                             absl::StrCat(zero.substr(0, zero.size() - 1), " axis:'s'}"), "train.micro_batches=2"},
                            {"mesh={axes{name:'r' size:2 role:'batch'} axes{name:'s' size:2 role:'batch'}}", zero}});
    ExpectSameUnder(ConvNet(), {{"mesh={dp:2}", zero}, {"mesh={dp:4}", zero, "train.micro_batches=2"}});
    ExpectSameUnder(WideDeep(), {{"mesh={dp:2}", zero}, {"mesh={dp:4}", zero, "train.micro_batches=2"}});
    ExpectSameUnder(MarginClassifier(), {{"mesh={dp:4}", zero}});
  }
}

// Bytes of a step by the table of ZeRO's volumes, (d - 1) / d of them on each of d ranks. With m micro-batches:
//
//   stage 1   weights once, gradients once
//   stage 2   weights once, gradients m times
//   stage 3   m times: weights for forward, those that backward reads, and gradients
TEST_F(ZeroLawTest, BytesAreThoseOfTheFormulas) {
  steps_ = 2;
  constexpr int kRanks = 4;
  const std::vector<std::string> copies = {"mesh={dp:4}", "unfused=true"};
  ASSERT_OK_AND_ASSIGN(const testing::Outcome plain, Run(WideGpt(), copies));
  int64_t all = 0, read_backward = 0;
  for (const auto& [name, bytes] : plain.initial_weights) {
    const auto size = static_cast<int64_t>(bytes.size());
    all += size;
    // Products and norms; what is added, or looked up, is not read again.
    const bool is_table = name == "wte/weight" || name == "wpe/weight";
    if (absl::EndsWith(name, "/weight") && !is_table) read_backward += size;
  }
  const auto per_step = [&](const testing::Outcome& outcome) {
    return static_cast<double>(outcome.stats.bytes_moved) / steps_;
  };
  for (const int m : {1, 2}) {
    const struct {
      const char* zero;
      int64_t bytes;
    } kCases[] = {{"", 2 * all},
                  {"zero={stage:1}", 2 * all},
                  {"zero={stage:2}", all + m * all},
                  {"zero={stage:2 sum_once:true}", 2 * all},
                  {"zero={stage:3}", m * (2 * all + read_backward)},
                  {"zero={stage:3 keep_gathered:true}", m * 2 * all},
                  {"zero={stage:3 sum_once:true}", all + m * (all + read_backward)}};
    for (const auto& [zero, bytes] : kCases) {
      SCOPED_TRACE(absl::StrCat(zero, ", ", m, " micro-batches"));
      std::vector<std::string> overrides = copies;
      overrides.push_back(absl::StrCat("train.micro_batches=", m));
      if (*zero != '\0') overrides.push_back(zero);
      ASSERT_OK_AND_ASSIGN(const testing::Outcome outcome, Run(WideGpt(), overrides));
      const auto expected = static_cast<double>((kRanks - 1) * bytes);
      EXPECT_GE(per_step(outcome), expected);
      EXPECT_LE(per_step(outcome), expected + 8000) << "losses, norms and the like";
    }
    // What layers computed again gather serves their gradients too.
    ASSERT_OK_AND_ASSIGN(const testing::Outcome again,
                         Run(WideGpt(), {"mesh={dp:4}", "zero={stage:3 bucket_mb:0.01}", "recompute.what=layers",
                                         absl::StrCat("train.micro_batches=", m)}));
    EXPECT_LE(per_step(again), static_cast<double>((kRanks - 1) * m * 3 * all) + 8000);
  }
}

// Of what is trained a rank has the part that it updates, its gradient and both of Adam's averages: 16 bytes of each of
// its parameters. Beside these are so many gathered units, and the gradients of some that are not reduced yet.
TEST_F(ZeroLawTest, StateTakesThePartOfARank) {
  steps_ = 2;
  constexpr int kRanks = 4, kLayers = 40;
  constexpr int64_t kLayer = 256 * 256 * 4, kFirst = 784 * 256 * 4;  // bytes of a weight
  const std::string config =
      absl::StrCat("model { mlp { widths: [", absl::StrJoin(std::vector<int>(kLayers, 256), ","),
                   "] } } data { images { ", "train_images: '", images_, "' train_labels: '", labels_,
                   "' } } train { batch_size: 8 optimizer { adamw {} } schedule { learning_rate: 1e-3 } }");
  ASSERT_OK_AND_ASSIGN(const testing::Outcome whole, Run(config, {}));
  int64_t all = 0;
  for (const auto& [name, bytes] : whole.initial_weights) all += static_cast<int64_t>(bytes.size());
  for (const int m : {1, 2}) {
    std::optional<int64_t> without;
    for (const int prefetch : {0, 1, 3}) {
      SCOPED_TRACE(absl::StrCat(m, " micro-batches, prefetch ", prefetch));
      ASSERT_OK_AND_ASSIGN(const testing::Outcome parts,
                           Run(config, {"mesh={dp:4}", absl::StrCat("train.micro_batches=", m),
                                        absl::StrCat("zero={stage:3 bucket_mb:0.2 prefetch:", prefetch, "}")}));
      EXPECT_EQ(parts.stats.register_bytes, parts.planned_bytes);
      const int64_t of_rank = parts.planned_bytes / kRanks, state = 4 * all / kRanks;
      EXPECT_GE(of_rank, state);
      // Of several micro-batches the parts of one gradient wait until they are added to those of the others.
      const int64_t waiting = m == 1 ? 0 : all / kRanks;
      constexpr int64_t kWhole = 2 * kFirst + 5 * kLayer;  // gradients that are not reduced yet on all ranks
      EXPECT_LE(of_rank, state * 103 / 100 + waiting + (1 + prefetch) * kLayer + kWhole);
      if (!without.has_value()) without = of_rank;
      EXPECT_LE(of_rank, *without + (4 + prefetch) * kLayer);
    }
  }
}

// Weights, gradients and averages of this model alone take three times what a device has.
TEST_F(ZeroLawTest, AModelThreeTimesAsLargeAsADeviceTrains) {
  steps_ = 20;
  const std::string config = absl::StrCat(
      "model { gpt { vocabulary: 128 layers: 8 width: 64 heads: 4 context: 12 } } data { text { path: '", text_,
      "' } } train { batch_size: 8 optimizer { adamw {} clip_norm: 1 } schedule { learning_rate: 3e-3 } }");
  ASSERT_OK_AND_ASSIGN(const testing::Outcome whole, Run(config, {}));
  int64_t all = 0;
  for (const auto& [name, bytes] : whole.initial_weights) all += static_cast<int64_t>(bytes.size());
  const int64_t has = 4 * all / 3;  // a quarter of the state are the weights
  const std::vector<std::string> small = {
      "mesh={dp:8}", absl::StrCat("cluster={hosts{count:1 devices:8 device_memory_bytes:", has, "}}")};
  EXPECT_THAT(Run(config, small).status().message(), ::testing::HasSubstr("memory"));
  std::vector<std::string> divided = small;
  divided.insert(divided.end(), {"zero={stage:3 bucket_mb:0.05}", "recompute.what=layers"});
  ASSERT_OK_AND_ASSIGN(const testing::Outcome parts, Run(config, divided));
  ExpectSame(parts, whole);
  EXPECT_LE(parts.planned_bytes / 8, has);
}

}  // namespace
}  // namespace oneflow
