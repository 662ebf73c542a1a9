// The law of sharded data parallelism: state that lies in parts, gathered whenever and however often, changes no bit of
// any loss while gradients are summed in the same order. It moves the bytes, and takes the memory, of its formulas.
#include <algorithm>

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

}  // namespace
}  // namespace oneflow
