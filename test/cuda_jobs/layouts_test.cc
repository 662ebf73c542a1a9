// The layout law on CUDA devices of one process: losses are those of one device of the host, and NCCL moves the bytes
// that were predicted.
#include <iostream>
#include <utility>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "test/cuda_jobs/devices.h"
#include "test/laws/layouts_law.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class CudaLayoutsTest : public testing::LayoutsLaw {
 protected:
  void SetUp() override {
    devices_ = testing::CudaDevices(4);
    if (devices_ == 0) GTEST_SKIP() << testing::LacksCudaDevices(1);
    steps_ = 5;
    placed_ = {"cluster.device=cuda"};
  }

  // How many devices a layout takes, and it.
  using Layouts = std::vector<std::pair<int, std::vector<std::string>>>;

  // Under those for which there are devices.
  void ExpectSameUnderAll(const std::string& config, const Layouts& layouts) {
    std::vector<std::vector<std::string>> possible;
    for (const auto& [devices, layout] : layouts) {
      if (devices <= devices_) {
        possible.push_back(layout);
      } else {
        std::cerr << "left out, because there are " << devices_ << " CUDA devices: " << absl::StrJoin(layout, " ")
                  << "\n";
      }
    }
    ExpectSameUnder(config, possible);
  }

  int devices_ = 0;
};

TEST_F(CudaLayoutsTest, AGptTrainsAlikeUnderEveryLayout) {
  steps_ = 3;
  ExpectSameUnderAll(Gpt(), {{1, {}},
                             {4, {"mesh={dp:4}"}},
                             {4, {"mesh={tp:4}"}},
                             {4, {"mesh={dp:2 tp:2}"}},
                             {4, {"mesh={pp:2 dp:2}", "train.micro_batches=4"}},
                             {4, {"mesh={pp:4}", "train.micro_batches=2"}},
                             {3, {"mesh={dp:3}"}}});
}

TEST_F(CudaLayoutsTest, AGptInBf16TrainsAlikeUnderEveryLayout) {
  first_bar_ = 5e-5;  // of 8 bits: sums that differ in their last are rounded to neighbours
  last_bar_ = 2e-4;
  ExpectSameUnderAll(Gpt() + " precision { compute: BF16 }",
                     {{1, {}}, {4, {"mesh={dp:2 tp:2}"}}, {4, {"mesh={pp:2 dp:2}", "train.micro_batches=2"}}});
}

TEST_F(CudaLayoutsTest, AGptInF16TrainsAlikeUnderEveryLayout) {
  first_bar_ = 1e-5;
  last_bar_ = 2e-4;
  ExpectSameUnderAll(Gpt() + " precision { compute: F16 }",
                     {{1, {}}, {4, {"mesh={dp:2 tp:2}"}}, {4, {"mesh={pp:2 dp:2}", "train.micro_batches=2"}}});
}

// Codes are of whole gradients, so that what is sent depends on the ranks alone, not on what they compute on.
TEST_F(CudaLayoutsTest, CompressedGradientsAreThoseOfTheHost) {
  if (devices_ < 2) GTEST_SKIP() << testing::LacksCudaDevices(2);
  for (const char* codec :
       {"POWERSGD default: 2", "TOPK default: 0.1", "QUANT default: 4", "RANDK default: 0.25", "PERMK default: 0.5"}) {
    SCOPED_TRACE(codec);
    const std::string config = Gpt() + " compress { family: " + codec + " }";
    ASSERT_OK_AND_ASSIGN(const testing::Outcome host, Run(config, {"mesh={dp:2}"}));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome got, Run(config, {"mesh={dp:2}", "cluster.device=cuda"}));
    EXPECT_EQ(got.stats.bytes_moved, got.predicted_bytes);
    for (int step = 0; step < steps_; ++step) {
      // An element may be the last that is sent here and the first that is not there, or of another level.
      EXPECT_NEAR(got.losses[step] / host.losses[step], 1, step == 0 ? 1e-6 : 1e-3) << "step " << step + 1;
    }
  }
}

// Weights and state are on the device, and so is what says that they stay.
TEST_F(CudaLayoutsTest, AllRanksSkipTheStepsWhoseGradientsOverflow) {
  if (devices_ < 4) GTEST_SKIP() << testing::LacksCudaDevices(4);
  steps_ = 8;
  const std::string config = Gpt() + " precision { compute: F16 initial_scale: 16777216 growth_interval: 2 }";
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(config, {}));
  const std::vector<double>& skipped = whole.fetched.at("skipped");
  EXPECT_NE(std::find(skipped.begin(), skipped.end(), 1), skipped.end());
  EXPECT_NE(std::find(skipped.begin(), skipped.end(), 0), skipped.end());
  for (const char* mesh : {"mesh={dp:2 tp:2}", "mesh={pp:2 dp:2}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(config, {mesh, placed_[0]}));
    for (const char* name : {"loss_scale", "skipped", "lr"}) EXPECT_EQ(parts.fetched.at(name), whole.fetched.at(name));
    for (int step = 0; step < steps_; ++step) ASSERT_NEAR(parts.losses[step] / whole.losses[step], 1, 2e-4);
  }
}

TEST_F(CudaLayoutsTest, AConvNetTrainsAlikeUnderEveryLayout) {
  ExpectSameUnderAll(
      ConvNet(),
      {{1, {}}, {2, {"mesh={dp:2}"}}, {2, {"mesh={tp:2}"}}, {4, {"mesh={pp:2 dp:2}", "train.micro_batches=2"}}});
}

TEST_F(CudaLayoutsTest, ClassesMayBeSplitOverDevices) {
  ExpectSameUnderAll(MarginClassifier(),
                     {{1, {}}, {4, {"mesh={tp:4}"}}, {3, {"mesh={tp:3}"}}, {4, {"mesh={dp:2 tp:2}"}}});
}

TEST_F(CudaLayoutsTest, TablesMayBeSplitByRowsOrByColumns) {
  steps_ = 12;  // until it has learned anything
  ExpectSameUnderAll(WideDeep(), {{1, {}},
                                  {4, {"mesh={tp:4}"}},
                                  {3, {"mesh={tp:3}", "model.wide_deep.table_split=columns"}},
                                  {4, {"mesh={dp:2 tp:2}"}},
                                  {4, {"mesh={dp:4}", "model.wide_deep.table_split=none"}}});
}

TEST_F(CudaLayoutsTest, LayersNarrowerThanTheirMeshTrainToo) {
  if (devices_ < 4) GTEST_SKIP() << testing::LacksCudaDevices(4);
  const std::vector<std::string> sizes = {"model.mlp.widths=[1,2]", "train.batch_size=2"};
  ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(Mlp(), sizes));
  for (const char* mesh : {"mesh={tp:3}", "mesh={dp:3}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(Mlp(), {sizes[0], sizes[1], mesh, placed_[0]}));
    for (int step = 0; step < steps_; ++step) ASSERT_NEAR(parts.losses[step] / whole.losses[step], 1, 1e-5);
  }
}

TEST_F(CudaLayoutsTest, CopiesAreEqual) {
  if (devices_ < 4) GTEST_SKIP() << testing::LacksCudaDevices(4);
  for (const char* mesh : {"mesh={dp:2 tp:2}", "mesh={tp:3}"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const Outcome plain, Run(Mlp(), {mesh, placed_[0]}));
    ASSERT_OK_AND_ASSIGN(const Outcome checked, Run(Mlp(), {mesh, placed_[0], "check_replicas=true"}));
    EXPECT_EQ(plain.losses, checked.losses);
  }
}

}  // namespace
}  // namespace oneflow
