// The law of mixes: whatever a job asks for at once, of meshes, schedules, state in parts, long samples in parts,
// recomputation, micro-batches, tied weights and types, its losses are those of one device. ONEFLOW_RANDOM_MIXES says
// how many are drawn, ONEFLOW_RANDOM_SEED which is the first.
#include <random>

#include "test/laws/layouts_law.h"
#include "test/laws/random_model.h"

namespace oneflow {
namespace {

class MixesTest : public testing::LayoutsLaw {
 protected:
  MixesTest() { steps_ = 5; }

  std::string Model(int which) const {
    static constexpr const char* kModels[] = {
        "gpt { vocabulary: 128 layers: 4 width: 24 heads: 4 context: 12 dropout: 0.1 }",
        "gpt { vocabulary: 128 layers: 4 width: 24 heads: 4 context: 12 tied_embedding: true }",
        "gpt { vocabulary: 131 layers: 4 width: 20 heads: 2 context: 12 }",
        "llama { vocabulary: 128 layers: 4 width: 24 heads: 4 kv_heads: 2 hidden: 40 context: 12 }",
        "llama { vocabulary: 128 layers: 4 width: 24 heads: 4 kv_heads: 1 hidden: 40 context: 13 window: 5 }"};
    return absl::StrCat("model { ", kModels[which], " } data { text { path: '", text_, "' } } ");
  }
  static std::string Train(int which) {
    static constexpr const char* kOptimizers[] = {"adamw { weight_decay: 0.1 } clip_norm: 1", "adamw {}",
                                                  "sgd { momentum: 0.9 }", "adamw { beta2: 0.99 }"};
    return absl::StrCat("train { batch_size: 16 optimizer { ", kOptimizers[which],
                        " } schedule { learning_rate: 1e-3 } }");
  }
};

// What one seed stands for.
struct Mix {
  int model = 0, optimizer = 0;
  bool narrow = false, rounds = false;  // rounds: what one device does not
  std::vector<std::string> layout;
};

Mix Drawn(int seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Mix mix;
  mix.model = draw(5);
  mix.optimizer = draw(4);
  mix.narrow = draw(4) == 0;
  int devices = 8;
  const auto size = [&](int most) {
    int of = 1 << draw(4);
    while (of > most || of > devices) of /= 2;
    devices /= of;
    return of;
  };
  const int pp = size(4), dp = size(8), tp = size(2), replicas = draw(3) == 0 ? size(2) : 1;
  const int ep = draw(3) == 0 ? size(2) : 1, cp = draw(2) == 0 ? devices >= 3 && draw(3) == 0 ? 3 : size(4) : 1;
  mix.layout.push_back(absl::StrCat("mesh={pp:", pp, " dp:", dp, " tp:", tp, " cp:", cp, " ep:", ep,
                                    replicas > 1 ? " axes{name:'r' size:2 role:'batch'}}" : "}"));
  if (const char* const ways[] = {"", "ring", "all-to-all"}; cp > 1) {
    if (const std::string way = ways[draw(3)]; !way.empty()) mix.layout.push_back("sequence.attention=" + way);
  }
  const int batches = pp > 1 ? 4 << draw(2) : 1 << draw(3);
  // Every rank has a sample of each micro-batch.
  const int micro_batches = std::max(1, std::min(batches, 16 / (dp * replicas * ep)));
  mix.layout.push_back(absl::StrCat("train.micro_batches=", micro_batches));
  const char* const schedules[] = {"", "1f1b", "gpipe", "zb-h1", "zb-v", "interleaved"};
  const std::string schedule = schedules[draw(6)];
  const bool of_chunks = schedule == "zb-v" || schedule == "interleaved";
  if (pp > 1 && !schedule.empty() && micro_batches % pp == 0 && (!of_chunks || pp == 2)) {
    mix.layout.push_back(absl::StrCat("pipeline={schedule:'", schedule, "'}"));
  }
  if (const int stage = draw(4); stage > 0) {
    std::string zero = absl::StrCat("zero={stage:", stage);
    if (replicas > 1 && draw(2) == 0) absl::StrAppend(&zero, " axis:'r'");
    if (stage > 1 && draw(3) == 0) absl::StrAppend(&zero, " sum_once:true");
    if (stage == 3) {
      const char* const units[] = {"", " bucket_mb:0.001", " bucket_mb:0.02", " bucket_mb:1"};
      absl::StrAppend(&zero, " prefetch:", draw(4), units[draw(4)], draw(4) == 0 ? " keep_gathered:true" : "");
    }
    mix.layout.push_back(zero + "}");
  }
  if (draw(3) == 0) mix.layout.push_back("recompute.what=layers");
  if (draw(6) == 0) mix.layout.push_back("unfused=true");
  std::vector<std::string> offloads;
  bool offloads_states = false;  // which gradients need
  for (const char* const what : {"OPTIMIZER", "WEIGHTS", "ACTIVATIONS", "GRADIENTS"}) {
    if (draw(3) != 0 || (what == std::string("GRADIENTS") && !offloads_states)) continue;
    offloads_states = offloads_states || what == std::string("OPTIMIZER");
    const char* const units[] = {"0.0005", "0.005", "0.1"};
    constexpr int kPrefetches[] = {0, 1, 12};
    offloads.push_back(absl::StrCat("{what:", what, " tier:", draw(2) == 0 ? "DISK" : "HOST", " least_kb:", draw(2),
                                    " prefetch:", kPrefetches[draw(3)], " unit_mb:", units[draw(3)], "}"));
  }
  if (!offloads.empty()) mix.layout.push_back(absl::StrCat("offload=[", absl::StrJoin(offloads, ", "), "]"));
  if (tp > 1 && draw(2) == 0) mix.layout.push_back("sequence.parallel=true");
  if (mix.narrow && draw(2) == 0) {
    mix.rounds = true;
    mix.layout.push_back("precision.reduce=BF16");
    if (draw(2) == 0) mix.layout.push_back("precision.accumulate=BF16");
  }
  return mix;
}

TEST_F(MixesTest, TrainAsOneDeviceDoes) {
  const int count = testing::FromEnvironment("ONEFLOW_RANDOM_MIXES", 40);
  const int first = testing::FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  std::map<std::string, testing::Outcome> whole;  // by config
  for (int seed = first; seed < first + count; ++seed) {
    const Mix mix = Drawn(seed);
    std::string config = Model(mix.model) + Train(mix.optimizer);
    if (mix.narrow) config += " precision { compute: BF16 }";
    first_bar_ = mix.rounds ? 2e-4 : mix.narrow ? 5e-5 : 1e-6;
    last_bar_ = mix.rounds ? 4e-3 : mix.narrow ? 1e-3 : 1e-4;
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", ", absl::StrJoin(mix.layout, " "), ", ", config));
    if (whole.count(config) == 0) {
      ASSERT_OK_AND_ASSIGN(whole[config], Run(config, {}));
      ASSERT_LT(whole[config].losses.back(), whole[config].losses.front()) << "it learns nothing";
    }
    const absl::StatusOr<testing::Outcome> parts = Run(config, mix.layout);
    EXPECT_OK(parts.status());
    if (parts.ok()) ExpectSame(*parts, whole[config]);
  }
}

}  // namespace
}  // namespace oneflow
