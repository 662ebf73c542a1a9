#include "sbp/topology.h"

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(TopologyTest, RanksOfAHostAreDividedIntoConsecutiveGroups) {
  const Topology topology = OneHost(5, 2);
  const int kProcesses[] = {0, 0, 1, 1, 2};
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(topology.ProcessOf(rank), kProcesses[rank]);
    EXPECT_EQ(topology.HostOf(rank), 0);
    EXPECT_EQ(topology.DeviceOf(rank), rank);
  }
  EXPECT_EQ(topology.num_hosts(), 1);
}

TEST(TopologyTest, HostsTakeRanksInOrderAndNumberTheirDevicesThemselves) {
  ASSERT_OK_AND_ASSIGN(const Topology topology,
                       Topology::Create(11, 2, {{.count = 2, .devices = 4}, {.count = 3, .devices = 2}}));
  const struct {
    int process, host, device;
  } kRanks[] = {{0, 0, 0}, {0, 0, 1}, {1, 0, 2}, {1, 0, 3}, {2, 1, 0}, {2, 1, 1},
                {3, 1, 2}, {3, 1, 3}, {4, 2, 0}, {4, 2, 1}, {5, 3, 0}};
  for (int rank = 0; rank < 11; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(topology.ProcessOf(rank), kRanks[rank].process);
    EXPECT_EQ(topology.HostOf(rank), kRanks[rank].host);
    EXPECT_EQ(topology.DeviceOf(rank), kRanks[rank].device);
    for (int other = 0; other < 11; ++other) {
      const Distance distance = topology.Between(rank, other);
      for (Distance within : {Distance::kSelf, Distance::kProcess, Distance::kHost, Distance::kNetwork}) {
        const auto [first, end] = topology.RanksWithin(within, rank);
        EXPECT_EQ(first <= other && other < end, distance <= within) << other;
      }
    }
  }
  EXPECT_EQ(topology.num_hosts(), 4) << "the last host holds no rank";
}

TEST(TopologyTest, OwnMemoryIsFreeAndFartherRanksCostMore) {
  ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(6, 2, {{.count = 2, .devices = 4}}));
  EXPECT_EQ(topology.LinkBetween(1, 1).alpha_s, 0);
  EXPECT_EQ(topology.LinkBetween(1, 1).beta_s_per_byte, 0);
  EXPECT_LT(topology.LinkBetween(0, 1).alpha_s, topology.LinkBetween(0, 2).alpha_s);
  EXPECT_LT(topology.LinkBetween(0, 2).alpha_s, topology.LinkBetween(0, 4).alpha_s);
}

// Two clusters as of many sites: each fast inside, and only ethernet between them.
TEST(TopologyTest, HostsMeetOverTheFastestClassThatBothHave) {
  Nics infiniband = *NicsOfClass("infiniband"), roce = *NicsOfClass("roce"), ethernet = *NicsOfClass("ethernet");
  infiniband.count = 8;
  ASSERT_OK_AND_ASSIGN(const Topology topology,
                       Topology::Create(32, 1,
                                        {{.count = 2, .devices = 8, .nics = {ethernet, infiniband}},
                                         {.count = 2, .devices = 8, .nics = {roce, ethernet}}}));
  EXPECT_EQ(topology.LinkBetween(0, 8).beta_s_per_byte, infiniband.link.beta_s_per_byte);
  EXPECT_DOUBLE_EQ(topology.HostBeta(0, 8), infiniband.link.beta_s_per_byte / 8);
  EXPECT_EQ(topology.LinkBetween(16, 24).beta_s_per_byte, roce.link.beta_s_per_byte);
  EXPECT_EQ(topology.LinkBetween(0, 16).beta_s_per_byte, ethernet.link.beta_s_per_byte);
  EXPECT_EQ(topology.HostBeta(0, 16), ethernet.link.beta_s_per_byte);
}

TEST(TopologyTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const HostGroup one{.devices = 4};
  const struct {
    int ranks, ranks_per_process;
    std::vector<HostGroup> hosts;
    std::string message;
  } kCases[] = {
      {0, 1, {one}, "0 ranks in processes of 1"},
      {4, 0, {one}, "4 ranks in processes of 0"},
      {4, 1, {}, "there are no hosts"},
      {5, 1, {one}, "the job has 5 ranks, but the 1 host has 4 devices"},
      {9, 1, {one, one}, "the job has 9 ranks, but the 2 hosts have 8 devices"},
      {4, 1, {{.count = 0}}, "hosts of group 0: count 0 is not positive"},
      {4, 1, {one, {.devices = -3}}, "hosts of group 1: devices -3 is not positive"},
      {4, 1, {{.count = 1 << 20, .devices = 1 << 20}}, "more than 2^31"},
      {4,
       1,
       {{.count = 1 << 30}, {.count = 1 << 30}, {.count = 1}},
       "the hosts have 2147483649 devices, more than 2^31"},
      {4, 1, std::vector<HostGroup>(65, one), "65 groups of hosts, at most 64"},
      {8, 3, {{.count = 2, .devices = 4}}, "4 devices do not divide among processes of 3"},
      {8, 1, {{.devices = 4, .nics = {{"roce", 1, {0, 1e-9}}}}, one}, "have no class of network cards in common"},
      {4, 1, {{.devices = 4, .nics = {{"roce", 0, {0, 1e-9}}}}}, "0 roce cards"},
      {4, 1, {{.devices = 4, .nics = {{"roce", 1, {0, 0}}}}}, "0 s per byte are no cards"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Topology::Create(c.ranks, c.ranks_per_process, c.hosts),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
  EXPECT_THAT(NicsOfClass("pigeon"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'pigeon' is none of")));
}

}  // namespace
}  // namespace oneflow
