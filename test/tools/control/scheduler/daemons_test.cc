#include "tools/control/scheduler/daemons.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

const absl::Time kEntered = absl::UnixEpoch() + absl::Hours(1);

pb::DaemonHello Hello(const std::string& name, uint64_t incarnation, int cpu_devices = 4) {
  pb::DaemonHello hello;
  hello.set_name(name);
  hello.set_host("h");
  hello.set_incarnation(incarnation);
  hello.set_pid(static_cast<int>(100 + incarnation));
  hello.set_cpu_devices(cpu_devices);
  return hello;
}

class DaemonsTest : public ::testing::Test {
 protected:
  void Enter(SessionId session, const pb::DaemonHello& hello, absl::Time now = kEntered) {
    daemons_.Enter(session, hello, now, effects_);
  }

  SchedulerLimits limits_;
  Daemons daemons_{limits_};
  Effects effects_;
};

TEST_F(DaemonsTest, ANameIsOfOneLiveProcess) {
  EXPECT_THAT(daemons_.FormerSession(Hello("a", 1)).value(), Eq(std::nullopt));
  Enter(1, Hello("a", 1));
  EXPECT_THAT(daemons_.FormerSession(Hello("a", 1)).value(), Optional(1));
  EXPECT_THAT(daemons_.FormerSession(Hello("a", 2)).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("pid 101 on host 'h'")));
  daemons_.Leave(1);
  EXPECT_THAT(daemons_.WhyLost(Hello("a", 1)), IsEmpty());
  EXPECT_THAT(daemons_.WhyLost(Hello("a", 2)), "it was restarted (pid 102)");
}

TEST_F(DaemonsTest, WhoIsAwayHasSomeTimeToComeBack) {
  Enter(1, Hello("a", 1));
  daemons_.SetAway(1, kEntered);
  daemons_.Leave(1);
  EXPECT_THAT(daemons_.Overdue(kEntered), IsEmpty());
  EXPECT_THAT(daemons_.Overdue(kEntered + limits_.comeback), ElementsAre(Pair("a", "its connection closed")));
  Enter(2, Hello("a", 1));
  EXPECT_THAT(daemons_.Overdue(kEntered + limits_.comeback), IsEmpty());
}

TEST_F(DaemonsTest, SilenceIsMeasuredWhileOthersAreHeard) {
  Enter(1, Hello("a", 1));
  Enter(2, Hello("b", 2));
  daemons_.Hear(2, kEntered + limits_.heartbeat);
  const absl::Time late = kEntered + limits_.lease;
  daemons_.Hear(2, kEntered + limits_.heartbeat * 2);
  daemons_.Hear(2, kEntered + limits_.heartbeat * 4);
  EXPECT_THAT(daemons_.Silent(late), ElementsAre(Pair(1, "no heartbeat for 2.5s (limit 2.5s)")));
  daemons_.Oversleep(limits_.lease, late);
  EXPECT_THAT(daemons_.Silent(late), IsEmpty());
}

TEST_F(DaemonsTest, AReportCountsOnce) {
  Enter(1, Hello("a", 1));
  EXPECT_TRUE(daemons_.Counts(1, 0, effects_)) << "it has no number";
  EXPECT_TRUE(daemons_.Counts(1, 5, effects_));
  EXPECT_FALSE(daemons_.Counts(1, 5, effects_));
  EXPECT_EQ(effects_.acknowledged.at(1), 5);
  EXPECT_EQ(effects_.changed_daemons.at("a").last_number(), 5);
  daemons_.Leave(1);
  Enter(2, Hello("a", 2));
  EXPECT_TRUE(daemons_.Counts(2, 1, effects_)) << "of another process";
}

TEST_F(DaemonsTest, AClusterIsOfThoseThatAreThereAndNotDrained) {
  Enter(1, Hello("b", 1));
  Enter(2, Hello("a", 2, 2));
  Enter(3, Hello("c", 3));
  daemons_.Take(1, /*cuda=*/false, 3, 10);
  ASSERT_OK(daemons_.Drain("c", /*undo=*/false, effects_));
  const Cluster cluster = daemons_.MakeCluster(/*cuda=*/false);
  ASSERT_EQ(cluster.offered.size(), 1u) << "they are on one host";
  EXPECT_THAT(cluster.offered[0].devices, ElementsAre(2, 4)) << "by name";
  EXPECT_THAT(cluster.free[0].devices, ElementsAre(2, 1));
  EXPECT_THAT(cluster.session[0], ElementsAre(2, 1));
  EXPECT_EQ(daemons_.num_drained(), 1);
  daemons_.GiveBack(1, /*cuda=*/false, 3, 10);
  daemons_.GiveBack(9, /*cuda=*/false, 3, 10);  // is not there any more
  EXPECT_THAT(daemons_.MakeCluster(/*cuda=*/false).free[0].devices, ElementsAre(2, 4));
}

}  // namespace
}  // namespace oneflow
