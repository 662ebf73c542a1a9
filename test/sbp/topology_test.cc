#include "sbp/topology.h"

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;

TEST(TopologyTest, RanksOfAHostAreDividedIntoConsecutiveGroups) {
  const Topology topology = OneHost(5, 2);
  EXPECT_THAT(topology.process_of_rank, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(topology.host_of_rank, ElementsAre(0, 0, 0, 0, 0));
}

TEST(TopologyTest, OwnMemoryIsFreeAndFartherRanksCostMore) {
  Topology topology = OneHost(4, 2);
  topology.host_of_rank = {0, 0, 0, 1};
  EXPECT_EQ(topology.Between(1, 1).alpha_s, 0);
  EXPECT_EQ(topology.Between(1, 1).beta_s_per_byte, 0);
  EXPECT_LT(topology.Between(0, 1).alpha_s, topology.Between(0, 2).alpha_s);
  EXPECT_LT(topology.Between(0, 2).alpha_s, topology.Between(0, 3).alpha_s);
}

}  // namespace
}  // namespace oneflow
