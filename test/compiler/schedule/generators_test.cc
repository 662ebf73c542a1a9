// Golden sequences, makespans and peaks, then laws over all sizes up to 8 ranks, 4 chunks a rank and 64 micro-batches.
//
// Golden values were computed by another program from the sources' rules.
#include "compiler/schedule/generators.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_join.h"
#include "compiler/schedule/check.h"
#include "compiler/schedule/play.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int kMostRanks = 8, kMostChunks = 4, kMostMicroBatches = 64;

std::string Text(const std::vector<Action>& actions) {
  return absl::StrJoin(actions, " ", [](std::string* out, const Action& action) { *out += ToString(action); });
}

// Costs of chunks of which `chunks_per_rank` make a stage: F = 1, B = 2 as I = W = 1, or what is given.
ScheduleCosts Costs(const Schedule& schedule, double forward = 1, double input = 1, double weight = 1) {
  return EqualCosts(schedule.num_chunks(),
                    {.forward = forward, .input_gradient = input, .weight_gradient = weight, .activations = 1});
}

int64_t Peak(const Timeline& timeline) { return *std::max_element(timeline.peak.begin(), timeline.peak.end()); }

TEST(GoldenScheduleTest, Interleaved) {
  ASSERT_OK_AND_ASSIGN(const Schedule small, Interleaved1F1B(2, 2, 4, 2));
  EXPECT_EQ(Text(small.ranks[0]), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(Text(small.ranks[1]), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
  ASSERT_OK_AND_ASSIGN(const Schedule large, Interleaved1F1B(4, 2, 8, 4));
  EXPECT_EQ(Text(large.ranks[0]),
            "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1 0B2 0B3 "
            "4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7");
}

TEST(GoldenScheduleTest, ZeroBubbleH1) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ZeroBubbleH1(4, 8));
  EXPECT_EQ(Text(schedule.ranks[0]),
            "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7");
  EXPECT_EQ(Text(schedule.ranks[3]),
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 3W5 3W6 3W7");
}

TEST(GoldenScheduleTest, ZeroBubbleV) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ZeroBubbleV(4, 8));
  EXPECT_EQ(Text(schedule.ranks[0]),
            "0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 0F7 0I0 0W0 7F4 7I4 "
            "7W4 0I1 0W1 7F5 7I5 7W5 0I2 0W2 7F6 7I6 7W6 0I3 0W3 7F7 7I7 7W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7");
}

struct Golden {
  const char* name;
  int p, m, v;
  double makespan, peak;  // of stages, whose F takes 1 and B 2
  double input = 1, weight = 1;
};

absl::StatusOr<Schedule> Make(const Golden& golden) {
  const std::string name = golden.name;
  if (name == "gpipe") return GPipe(golden.p, golden.m);
  if (name == "1f1b") return OneFOneB(golden.p, golden.m);
  if (name == "zb-h1") return ZeroBubbleH1(golden.p, golden.m);
  if (name == "zb-v") return ZeroBubbleV(golden.p, golden.m);
  return Interleaved1F1B(golden.p, golden.v, golden.m);
}

TEST(GoldenScheduleTest, MakespansAndPeaks) {
  const Golden kGoldens[] = {
      {"gpipe", 4, 8, 1, 33, 8},
      {"gpipe", 8, 16, 1, 69, 16},
      {"gpipe", 8, 64, 1, 213, 64},
      {"1f1b", 4, 8, 1, 33, 4},
      {"1f1b", 8, 16, 1, 69, 8},
      {"1f1b", 8, 64, 1, 213, 8},
      {"1f1b", 64, 512, 1, 1725, 64},
      {"interleaved", 4, 8, 2, 28.5, 5.5},
      {"interleaved", 8, 16, 2, 58.5, 11.5},
      {"interleaved", 8, 64, 2, 202.5, 11.5},
      {"interleaved", 4, 8, 4, 26.25, 4.75},
      {"interleaved", 8, 16, 4, 53.25, 9.75},
      {"interleaved", 8, 64, 4, 197.25, 9.75},
      {"zb-h1", 4, 8, 1, 27, 4},
      {"zb-h1", 8, 16, 1, 55, 8},
      {"zb-h1", 8, 64, 1, 199, 8},
      {"zb-v", 4, 8, 2, 25.5, 4},
      {"zb-v", 8, 16, 2, 51.5, 8},
      {"zb-v", 8, 64, 2, 195.5, 8},
      {"zb-h1", 4, 8, 1, 28.2, 4, 1.2, 0.8},
      {"zb-h1", 8, 16, 1, 57.8, 8, 1.2, 0.8},
      {"zb-h1", 8, 64, 1, 201.8, 8, 1.2, 0.8},
      {"zb-v", 4, 8, 2, 25.8, 4, 1.2, 0.8},
      {"zb-v", 8, 16, 2, 52.2, 8, 1.2, 0.8},
      {"zb-v", 8, 64, 2, 196.2, 8, 1.2, 0.8},
  };
  for (const Golden& golden : kGoldens) {
    SCOPED_TRACE(absl::StrCat(golden.name, " p=", golden.p, " m=", golden.m, " v=", golden.v));
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, Make(golden));
    ASSERT_OK(CheckSchedule(schedule));
    const double v = golden.v;
    const Timeline timeline = Play(schedule, Costs(schedule, 1 / v, golden.input / v, golden.weight / v));
    EXPECT_NEAR(timeline.makespan, golden.makespan, 1e-9);
    EXPECT_EQ(Peak(timeline) / v, golden.peak);
  }
}

// More micro-batches in a group keep more and gain nothing.
TEST(GoldenScheduleTest, LargerGroupsOnlyTakeMemory) {
  for (const auto& [group, peak] : {std::pair(4, 11), std::pair(8, 15), std::pair(16, 23)}) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, Interleaved1F1B(4, 2, 16, group));
    ASSERT_OK(CheckSchedule(schedule));
    const Timeline timeline = Play(schedule, Costs(schedule, 0.5, 0.5, 0.5));
    EXPECT_EQ(timeline.makespan, 52.5);
    EXPECT_EQ(timeline.peak[0], peak);
  }
}

std::string Join(const std::vector<std::string>& actions) { return absl::StrJoin(actions, " "); }

// Calls test(p, m).
template <typename Test>
void ForAllSizes(const Test& test) {
  for (int p = 1; p <= kMostRanks; ++p) {
    for (int m = 1; m <= kMostMicroBatches; ++m) {
      SCOPED_TRACE(absl::StrCat("p=", p, " m=", m));
      ASSERT_NO_FATAL_FAILURE(test(p, m));
    }
  }
}

TEST(AllSizesTest, GPipe) {
  ForAllSizes([](int p, int m) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, GPipe(p, m));
    ASSERT_OK(CheckSchedule(schedule));
    const Timeline timeline = Play(schedule, Costs(schedule));
    EXPECT_EQ(timeline.makespan, 3 * (m + p - 1));
    EXPECT_EQ(timeline.peak, std::vector<int64_t>(p, m));
  });
}

TEST(AllSizesTest, OneFOneB) {
  ForAllSizes([](int p, int m) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, OneFOneB(p, m));
    ASSERT_OK(CheckSchedule(schedule));
    for (int r = 0; r < p; ++r) {  // the rule: warm-up, F and B in turn, the rest of B
      const int warm_up = std::min(m, p - r - 1);
      std::vector<std::string> actions;
      for (int f = 0; f < warm_up; ++f) actions.push_back(absl::StrCat(r, "F", f));
      for (int b = 0; b < m; ++b) {
        if (b + warm_up < m) actions.push_back(absl::StrCat(r, "F", b + warm_up));
        actions.push_back(absl::StrCat(r, "B", b));
      }
      ASSERT_EQ(Text(schedule.ranks[r]), Join(actions));
    }
    const Timeline timeline = Play(schedule, Costs(schedule));
    EXPECT_EQ(timeline.makespan, 3 * (m + p - 1));  // a bubble of (p - 1)/m
    EXPECT_DOUBLE_EQ(timeline.Bubble(), (p - 1.0) / m);
    for (int r = 0; r < p; ++r) EXPECT_EQ(timeline.peak[r], std::min(m, p - r));
  });
}

// Megatron's get_schedule_table and its warm-up, with groups of p: virtual micro-batch k is that of the table for F,
// and for B that of the chunk from the other end.
std::string InterleavedByItsTable(int p, int v, int m, int rank) {
  std::vector<std::pair<int, int>> table;  // micro-batch, chunk
  for (int low = 0; low < m; low += p) {
    for (int chunk = 0; chunk < v; ++chunk) {
      for (int batch = low; batch < std::min(m, low + p); ++batch) table.emplace_back(batch, chunk);
    }
  }
  const int n = m * v, warm_up = std::min(n, 2 * (p - rank - 1) + (v - 1) * p);
  const auto forward = [&](int k) { return absl::StrCat(table[k].second * p + rank, "F", table[k].first); };
  const auto backward = [&](int k) { return absl::StrCat((v - 1 - table[k].second) * p + rank, "B", table[k].first); };
  std::vector<std::string> actions;
  for (int k = 0; k < warm_up; ++k) actions.push_back(forward(k));
  for (int k = 0; k < n; ++k) {
    if (k + warm_up < n) actions.push_back(forward(k + warm_up));
    actions.push_back(backward(k));
  }
  return Join(actions);
}

TEST(AllSizesTest, InterleavedIsItsTable) {
  ForAllSizes([](int p, int m) {
    if (m % p != 0) return;
    for (int v = 2; v <= kMostChunks; ++v) {
      ASSERT_OK_AND_ASSIGN(const Schedule schedule, Interleaved1F1B(p, v, m));
      for (int r = 0; r < p; ++r) ASSERT_EQ(Text(schedule.ranks[r]), InterleavedByItsTable(p, v, m, r)) << "v=" << v;
    }
  });
}

TEST(AllSizesTest, Interleaved) {
  ForAllSizes([](int p, int m) {
    for (int v = 2; v <= kMostChunks; ++v) {
      ASSERT_OK_AND_ASSIGN(const Schedule schedule, Interleaved1F1B(p, v, m));
      ASSERT_OK(CheckSchedule(schedule)) << "v=" << v;
      const Timeline timeline = Play(schedule, Costs(schedule));
      if (m >= p) {
        EXPECT_EQ(timeline.makespan, 3 * m * v + 3 * (p - 1)) << "v=" << v;
        EXPECT_DOUBLE_EQ(timeline.Bubble(), (p - 1.0) / (m * v)) << "v=" << v;
      }
      if (m % p != 0) continue;
      EXPECT_EQ(schedule, *Interleaved1F1B(p, v, m, p));  // the paper's
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(timeline.peak[r], std::min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1)) << "v=" << v;
      }
    }
  });
}

// Of groups that do not fill the pipeline some are schedules and some are errors; none waits for ever.
TEST(AllSizesTest, InterleavedInShortGroups) {
  int good = 0, bad = 0;
  ForAllSizes([&](int p, int m) {
    for (const int group : {1, p - 1, p, p + 1}) {
      const absl::StatusOr<Schedule> schedule = Interleaved1F1B(p, 3, m, group);
      ++(schedule.ok() ? good : bad);
      if (schedule.ok()) {
        ASSERT_OK(CheckSchedule(*schedule)) << group;
      } else {
        ASSERT_TRUE(group < p || (m % group != 0 && m % group < p)) << schedule.status();
      }
    }
  });
  EXPECT_GT(good, 500);
  EXPECT_GT(bad, 500);
  EXPECT_THAT(
      Interleaved1F1B(4, 3, 5, 4),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "5 micro-batches in groups of 4, each of which needs 4 or more; groups of 5 work: ranks wait for one "
               "another: rank 0 waits with '8F4' for '7F4' of rank 3, rank 3 waits with '7B0' for '8B0' of rank "
               "0"));
}

TEST(AllSizesTest, ZeroBubbleH1) {
  ForAllSizes([](int p, int m) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, ZeroBubbleH1(p, m));
    ASSERT_OK(CheckSchedule(schedule));
    const Timeline timeline = Play(schedule, Costs(schedule));
    EXPECT_EQ(timeline.peak, std::vector<int64_t>(p, std::min(m, p)));
    const Schedule one = *OneFOneB(p, m);
    for (int r = 0; r < p; ++r) {  // 1F1B with W put off by r micro-batches
      std::vector<Action> expected;
      for (Action action : one.ranks[r]) {
        const bool backward = action.kind == ActionKind::kBackward;
        if (backward) action.kind = ActionKind::kInputGradient;
        expected.push_back(action);
        if (backward && action.micro_batch >= r)
          expected.push_back({r, action.micro_batch - r, ActionKind::kWeightGradient});
      }
      for (int w = std::max(0, m - r); w < m; ++w) expected.push_back({r, w, ActionKind::kWeightGradient});
      ASSERT_EQ(Text(schedule.ranks[r]), Text(expected));
    }
    if (m >= p) {
      EXPECT_EQ(timeline.makespan, 3 * m + p - 1);
      EXPECT_DOUBLE_EQ(timeline.Bubble(), (p - 1.0) / (3 * m));
    }
  });
}

TEST(AllSizesTest, ZeroBubbleV) {
  ForAllSizes([](int p, int m) {
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, ZeroBubbleV(p, m));
    ASSERT_OK(CheckSchedule(schedule));
    const Timeline timeline = Play(schedule, Costs(schedule));
    EXPECT_LE(Peak(timeline), 2 * p);
    if (m >= 2 * p - 1) {
      EXPECT_EQ(timeline.makespan, 6 * m + p - 1);
      EXPECT_DOUBLE_EQ(timeline.Bubble(), (p - 1.0) / (6 * m));
      EXPECT_EQ(Peak(timeline), 2 * p);  // of half stages: p
    }
  });
}

TEST(AllSizesTest, DualPipeV) {
  ForAllSizes([](int p, int m) {
    if (m < 2 * p) {
      EXPECT_THAT(DualPipeV(p, m),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           absl::StrCat(p, " ranks take ", 2 * p, " micro-batches or more, and there ", "are ", m)));
      return;
    }
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, DualPipeV(p, m));
    ASSERT_OK(CheckSchedule(schedule));
    const Timeline timeline = Play(schedule, Costs(schedule));
    EXPECT_EQ(Peak(timeline), 2 * p + 1);
    // (p - 1)(F&B + B - 3W), where a pair takes what F and B take one after the other.
    EXPECT_EQ(timeline.makespan, 6 * m + 2 * (p - 1));
  });
}

TEST(AllSizesTest, ForwardOnly) {
  ForAllSizes([](int p, int m) {
    for (int v = 1; v <= kMostChunks; ++v) {
      ASSERT_OK_AND_ASSIGN(const Schedule schedule, ForwardOnly(p, RoundRobin(p, v), m));
      ASSERT_OK(CheckSchedule(schedule)) << "v=" << v;
      EXPECT_TRUE(IsForwardOnly(schedule));
      if (m % p == 0) {
        EXPECT_EQ(Play(schedule, Costs(schedule)).makespan, m * v + p - 1) << "v=" << v;
      }
    }
    ASSERT_OK_AND_ASSIGN(const Schedule v_shape, ForwardOnly(p, VShape(p), m));
    ASSERT_OK(CheckSchedule(v_shape));
    if (m >= 2 * p) {
      EXPECT_EQ(Play(v_shape, Costs(v_shape)).makespan, 2 * m + 2 * (p - 1));
    }
  });
}

// Megatron: F of all virtual micro-batches in the order of the table.
TEST(ForwardOnlyTest, WithWholeGroupsIsTheOrderOfTheInterleavedOnesForward) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ForwardOnly(2, RoundRobin(2, 2), 4));
  EXPECT_EQ(Text(schedule.ranks[0]), "0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3");
  EXPECT_EQ(Text(schedule.ranks[1]), "1F0 1F1 3F0 3F1 1F2 1F3 3F2 3F3");
}

TEST(ForwardOnlyTest, TakesChunksByHand) {
  ASSERT_OK_AND_ASSIGN(const Schedule schedule, ForwardOnly(3, {0, 1, 0, 1, 1}, 2));
  EXPECT_OK(CheckSchedule(schedule));
  EXPECT_THAT(schedule.ranks[2], ElementsAre());
  EXPECT_THAT(ForwardOnly(2, {0, 2}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 1 lies on rank 2 of 2 ranks")));
}

}  // namespace
}  // namespace oneflow
