#include "tools/control/daemon/kept_reports.h"

#include <thread>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

constexpr absl::Duration kAtOnce = absl::ZeroDuration();
constexpr absl::Duration kRoomLimit = absl::Seconds(20);

pb::FromDaemon KeptReport(int64_t job) {
  pb::FromDaemon report;
  report.mutable_report()->set_job(job);
  return report;
}
// The jobs of all that would be said now.
std::vector<int64_t> SaidJobs(KeptReports& reports) {
  std::vector<int64_t> jobs;
  while (const std::optional<pb::FromDaemon> next = reports.Next(kAtOnce)) jobs.push_back(next->report().job());
  return jobs;
}

TEST(KeptReportsTest, WhatIsNotStoredIsSaidAgainInTheNextSession) {
  KeptReports reports(1000);
  reports.Add(KeptReport(1));
  EXPECT_THAT(SaidJobs(reports), ElementsAre()) << "there is no session";
  reports.BeginSession();
  EXPECT_EQ(reports.Add(KeptReport(2)), 2);
  EXPECT_THAT(SaidJobs(reports), ElementsAre(1, 2));
  reports.Stored(1);
  reports.Add(KeptReport(3));
  EXPECT_THAT(SaidJobs(reports), ElementsAre(3));
  reports.EndSession();
  EXPECT_TRUE(reports.session_ended());
  reports.Add(KeptReport(4));
  reports.BeginSession();
  EXPECT_THAT(SaidJobs(reports), ElementsAre(2, 3, 4));
  reports.Stored(4);
  reports.EndSession();
  reports.BeginSession();
  EXPECT_THAT(SaidJobs(reports), ElementsAre());
}

TEST(KeptReportsTest, AnAnswerIsOfItsSessionOnlyAndHasNoNumber) {
  KeptReports reports(1000);
  reports.AddForSession(KeptReport(1));
  reports.BeginSession();
  EXPECT_FALSE(reports.Next(kAtOnce).has_value()) << "it was asked in no session";
  reports.AddForSession(KeptReport(2));
  reports.Add(KeptReport(3));
  EXPECT_EQ(reports.Next(kAtOnce)->number(), 0);
  EXPECT_EQ(reports.Next(kAtOnce)->number(), 1);
}

TEST(KeptReportsTest, WhoHasMoreToSayWaitsForRoom) {
  KeptReports reports(KeptReport(7).ByteSizeLong() + 5);
  reports.BeginSession();
  EXPECT_TRUE(reports.AwaitRoom(kAtOnce));
  reports.Add(KeptReport(1));
  reports.Add(KeptReport(2));
  EXPECT_FALSE(reports.AwaitRoom(kAtOnce));
  std::thread scheduler([&] { reports.Stored(2); });
  EXPECT_TRUE(reports.AwaitRoom(kRoomLimit));
  scheduler.join();
}

TEST(KeptReportsTest, TheEndOfASessionWakesItsWriter) {
  KeptReports reports(1000);
  reports.BeginSession();
  std::thread ender([&] { reports.EndSession(); });
  EXPECT_FALSE(reports.Next(absl::InfiniteDuration()).has_value());
  ender.join();
}

}  // namespace
}  // namespace oneflow
