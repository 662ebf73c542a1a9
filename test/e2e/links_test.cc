// How fast links between hosts are used: a hop, all-reduces, and training that hides them, beside PyTorch's DDP over
// gloo. Real time on both cores of a machine, so not part of every test run; nothing else should run meanwhile:
//
//   ONEFLOW_LINKS=3 [ONEFLOW_PYTORCH=python3] e2e_test --gtest_filter=LinksTest.*
//
// which measures three rounds and takes their medians.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/e2e/across_hosts.h"
#include "test/support/paths.h"

namespace oneflow::e2e {
namespace {

constexpr double kMegabits = 1000;  // of a shaped link
constexpr double kLinkBytesPerS = kMegabits * 1e6 / 8;
constexpr double kHopBar = 60e-6, kLinkBar = 0.9, kNearBytes = 0.1, kHiddenBar = 0.95;
constexpr absl::Duration kLongestJob = absl::Minutes(5);

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class LinksTest : public AcrossHosts {
 protected:
  void SetUp() override {
    AcrossHosts::SetUp();
    const char* const asked = std::getenv("ONEFLOW_LINKS");
    if (asked == nullptr) GTEST_SKIP() << "ONEFLOW_LINKS says how many rounds are to be measured";
    ASSERT_TRUE(absl::SimpleAtoi(asked, &rounds_) && rounds_ > 0) << "ONEFLOW_LINKS is '" << asked << "'";
  }

  // What `oneflow bench --cases links` tells of each round.
  nlohmann::json Bench() {
    const std::string file = work_.Path("links.json");
    auto bench = work_.Start(
        Join({"bench", "--cases", "links", "--rounds", absl::StrCat(rounds_), "--cores", "2", "--json", file}, At()),
        /*passed_fd=*/-1, hosts_->In(0));
    const Outcome ended = bench->Wait(kLongestJob);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    std::cout << ended.out << std::flush;
    const nlohmann::json report = nlohmann::json::parse(ReadFile(file), nullptr, /*allow_exceptions=*/false);
    return report.is_object() ? report.value("links", nlohmann::json()) : nlohmann::json();
  }
  static double MedianOfField(const nlohmann::json& links, const char* field) {
    std::vector<double> values;
    for (const nlohmann::json& round : links) values.push_back(round.value(field, 0.0));
    return MedianOf(values);
  }

  // A GPT of 19 million parameters, 1,024 tokens a step and rank, of as many steps as are worth measuring.
  std::string WideGptJob() const {
    return work_.Write(
        "wide.pbtxt",
        absl::StrCat("model { gpt { layers: 6 width: 512 heads: 8 context: 256 } }\n"
                     "data { text { path: '",
                     work_.Path("text"),
                     "' } }\n"
                     "train { steps: 8 batch_size: 8 optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 }\n"
                     "        schedule { learning_rate: 3e-4 } }\n"));
  }
  // Seconds of a step of ours over both hosts.
  double Ours() const {
    constexpr double kTokens = 8 * 256;
    std::vector<double> seconds;
    for (const nlohmann::json& line : work_.Metrics(WideGptJob(), Join(On(2, 1, "dp: 2"), At()), hosts_->In(0))) {
      if (line.at("step") > 2) seconds.push_back(kTokens / line.at("tokens_per_s").get<double>());
    }
    return MedianOf(seconds);
  }

  int rounds_ = 0;
};

TEST_F(LinksTest, AHopIsShort) {
  Stand(2, 2);
  EXPECT_LE(MedianOfField(Bench(), "hop_seconds"), kHopBar);
}

// Flat and hierarchical all-reduces of 64 MiB, which take what their bytes take.
TEST_F(LinksTest, AllReducesTakeTheLinkAndNoLongerThanTheirBytes) {
  Stand(2, 2);
  ASSERT_OK(hosts_->Shape(kMegabits));
  const int64_t before = hosts_->CountTraffic(0)->sent;
  const nlohmann::json links = Bench();
  ASSERT_EQ(links.size(), static_cast<size_t>(rounds_));
  const double flat = MedianOfField(links, "flat_seconds"), flat_bytes = links[0].at("flat_bytes");
  const double deep = MedianOfField(links, "hierarchical_seconds"), deep_bytes = links[0].at("hierarchical_bytes");
  EXPECT_GE(flat_bytes / flat / kLinkBytesPerS, kLinkBar);
  EXPECT_GE(deep_bytes / deep / kLinkBytesPerS, kLinkBar);
  EXPECT_NEAR(flat / deep / (flat_bytes / deep_bytes), 1, kNearBytes);
  // One step whole, twice eight bare, and round trips of some MB.
  const double sent = static_cast<double>(hosts_->CountTraffic(0)->sent - before) / rounds_;
  EXPECT_NEAR(sent / (17 * (flat_bytes + deep_bytes)), 1, 0.02);
}

// Data-parallel training keeps its speed on a link that a step has time to hide, and more of it than DDP.
TEST_F(LinksTest, TrainingHidesItsGradientsBetterThanDdp) {
  core_each_ = true;
  Stand(2, 1);
  const char* const python = std::getenv("ONEFLOW_PYTORCH");
  std::vector<double> ours, theirs;  // of the speed on a free link, by round
  for (int round = 0; round < rounds_; ++round) {
    std::map<bool, double> mine, others;  // by whether the link is shaped
    for (const bool shaped : {false, true}) {
      ASSERT_OK(shaped ? hosts_->Shape(kMegabits) : hosts_->Unshape());
      mine[shaped] = Ours();
      if (python != nullptr) others[shaped] = SecondsOfDdp(python);
    }
    ours.push_back(mine[false] / mine[true]);
    std::cout << "ours: " << mine[false] << " s a step, shaped " << mine[true] << ": " << ours.back() << std::endl;
    if (python == nullptr) continue;
    theirs.push_back(others[false] / others[true]);
    std::cout << "DDP: " << others[false] << " s a step, shaped " << others[true] << ": " << theirs.back() << std::endl;
  }
  EXPECT_GE(MedianOf(ours), kHiddenBar);
  EXPECT_GT(MedianOf(ours), MedianOf(theirs));
}

}  // namespace
}  // namespace oneflow::e2e
