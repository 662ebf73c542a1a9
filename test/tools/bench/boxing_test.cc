#include "tools/bench/boxing.h"

#include <fstream>

#include "compiler/lower/program.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/ops/ops.h"
#include "proto/plan.pb.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/local/run_in_place.h"

namespace oneflow {
namespace {

class BoxingJobTest : public ::testing::TestWithParam<BoxingWay> {
 protected:
  // The job in this process, and what it saved.
  absl::Status Run(BoxingPlace place = BoxingPlace::kOneHost) {
    constexpr int64_t kNumBytes = (4 << 20) + (12 << 10);  // parts of more than a block, and of no even number
    OF_ASSIGN_OR_RETURN(pb::JobSpec spec,
                        MakeBoxingJob(GetParam(), kNumBytes, /*steps=*/2, /*cores=*/2, file(), ops_, place));
    pb::PlanSet plan;
    if (!plan.ParseFromString(spec.plan())) return absl::InternalError("the plan does not parse");
    OF_ASSIGN_OR_RETURN(pb::Program program, ProgramOf(plan, std::nullopt, spec.plan_hash()));
    for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);
    spec.set_processes(1);
    spec.set_devices_per_process(kBoxingRanks);
    OF_ASSIGN_OR_RETURN(const EngineStats stats, RunInPlace(spec, std::move(program), nullptr));
    moved_ = stats.bytes_moved / 5;  // one step of `whole`, two times two of `bare`
    num_bytes_ = kNumBytes;
    return absl::OkStatus();
  }
  std::string file() const { return dir_.File("boxed"); }

  const OpRegistry ops_ = StandardOps();
  const TestDir dir_;
  int64_t moved_ = 0, num_bytes_ = 0;
};

TEST_P(BoxingJobTest, EveryStepBoxesAndWhatArrivesIsWhatWasSent) {
  ASSERT_OK(Run());
  EXPECT_OK(CheckBoxed(GetParam(), file()));
  // The table of volumes: of four ranks, and of two that send to two others.
  const int64_t moved[] = {6 * num_bytes_, 3 * num_bytes_, 3 * num_bytes_, 3 * num_bytes_ / 4, num_bytes_};
  EXPECT_EQ(moved_, moved[static_cast<int>(GetParam())]);
}

TEST_P(BoxingJobTest, HostsGetWhatWasSentToo) {
  for (const BoxingPlace place : {BoxingPlace::kTwoHostsOfTwo, BoxingPlace::kFourHostsOfOne}) {
    ASSERT_OK(Run(place));
    EXPECT_OK(CheckBoxed(GetParam(), file()));
  }
}

TEST_P(BoxingJobTest, OneOtherElementIsSeen) {
  ASSERT_OK(Run());
  std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header = 0;
  stream.read(reinterpret_cast<char*>(&header), sizeof(header));
  std::string names(header, ' ');
  stream.read(names.data(), static_cast<std::streamsize>(header));
  const nlohmann::json entry = nlohmann::json::parse(names).at("kept");
  const float other = 12345;
  stream.seekp(static_cast<std::streamoff>(8 + header + entry.at("data_offsets")[1].get<uint64_t>() - sizeof(other)));
  stream.write(reinterpret_cast<const char*>(&other), sizeof(other));
  stream.close();
  EXPECT_THAT(CheckBoxed(GetParam(), file()), StatusIs(absl::StatusCode::kInternal, HasSubstr("is 12345; ")));
}

INSTANTIATE_TEST_SUITE_P(Ways, BoxingJobTest, ::testing::ValuesIn(kBoxingWays), [](const auto& info) {
  std::string name = NameOf(info.param);
  std::erase(name, '-');
  return name;
});

TEST(BoxingTextTest, ShowsMediansBesideBars) {
  const BoxingRow large = {.way = BoxingWay::kAllReduce,
                           .num_bytes = 64 << 20,
                           .rounds = {{.ours = 0.1, .copying = 0.09, .gloo = 0.3},
                                      {.ours = 0.1, .copying = 0.09, .gloo = 0.2},
                                      {.ours = 0.2, .copying = 0.1, .gloo = 0.2}}};
  const BoxingRow slow = {.way = BoxingWay::kSend, .num_bytes = 256 << 20, .rounds = {{.ours = 0.1, .copying = 0.05}}};
  const BoxingRow small = {.way = BoxingWay::kSend, .num_bytes = 4 << 10, .rounds = {{.ours = 1e-3, .copying = 1e-6}}};
  const std::string text = BoxingText({large, slow, small}, "PyTorch 9, gloo");
  EXPECT_THAT(text, HasSubstr("medians; PyTorch 9, gloo\n"));
  EXPECT_THAT(text,
              ContainsRegex("all-reduce, 64 MiB +100000.0 +0.671 +200000.0 +2.00 +0.90  held; 2 times gloo  held\n"));
  EXPECT_THAT(text, ContainsRegex("send, 256 MiB +100000.0 +2.684 +- +- +0.50  missed\n"));
  EXPECT_THAT(text, ContainsRegex("send, 4 KiB +1000.0 +0.004 +- +- +0.00\n")) << "no bar where latency counts";
}

TEST(CopiedBytesTest, AreHalfOfWhatIsReadAndWritten) {
  const double copied[] = {6.5, 4, 2.5, 1, 1};
  for (const BoxingWay way : kBoxingWays) EXPECT_EQ(CopiedBytes(way, 4096), 4096 * copied[static_cast<int>(way)]);
}

}  // namespace
}  // namespace oneflow
