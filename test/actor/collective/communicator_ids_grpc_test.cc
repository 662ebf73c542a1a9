#include <thread>

#include "actor/collective/communicator_ids.h"
#include "actor/transport/peer_network.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Rank r is in process process_of_rank[r].
pb::Program MakePlans(const std::vector<int>& process_of_rank, const std::vector<std::vector<int>>& communicators) {
  pb::Program plans;
  plans.set_job("job");
  for (const int process : process_of_rank) plans.add_ranks()->set_process(process);
  for (const std::vector<int>& ranks : communicators) {
    pb::Communicator* const communicator = plans.add_communicators();
    for (const int rank : ranks) communicator->add_ranks(rank);
  }
  return plans;
}

// Names ids after who makes them: "p0/0", "p0/1", ...
std::function<absl::StatusOr<std::string>()> Maker(int process) {
  return
      [process, made = 0]() mutable -> absl::StatusOr<std::string> { return absl::StrCat("p", process, "/", made++); };
}

TEST(CommunicatorIdsTest, OneProcessMakesAllIdsItself) {
  const pb::Program plans = MakePlans({0, 0}, {{0, 1}, {1}, {1, 0}});
  ASSERT_OK_AND_ASSIGN(const auto ids, AgreeOnCommunicatorIds(plans, 0, nullptr, Maker(0)));
  EXPECT_THAT(ids, ElementsAre("p0/0", "p0/1", "p0/2"));
}

TEST(CommunicatorIdsTest, PlansWithoutCommunicatorsNeedNoIds) {
  ASSERT_OK_AND_ASSIGN(const auto ids, AgreeOnCommunicatorIds(MakePlans({0}, {}), 0, nullptr, Maker(0)));
  EXPECT_THAT(ids, IsEmpty());
}

TEST(CommunicatorIdsTest, TheProcessOfTheFirstRankMakesTheIdAndAllLearnIt) {
  const pb::Program plans = MakePlans({0, 0, 1, 2}, {{0, 2}, {2, 3}, {1, 3}, {3, 0}});
  std::vector<std::unique_ptr<PeerNetwork>> networks;
  std::vector<std::string> addresses;
  for (int p = 0; p < 3; ++p) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<PeerNetwork> network, PeerNetwork::Create(p, 3, /*attempt=*/7));
    addresses.push_back(network->address());
    networks.push_back(std::move(network));
  }
  std::vector<absl::StatusOr<std::vector<std::string>>> ids(3);
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p) {
    threads.emplace_back([&, p] {
      const absl::Status connected = networks[p]->Connect(addresses, absl::Seconds(20));
      ids[p] = connected.ok() ? AgreeOnCommunicatorIds(plans, p, networks[p].get(), Maker(p)) : connected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int p = 0; p < 3; ++p) {
    ASSERT_OK(ids[p]);
    EXPECT_THAT(*ids[p], ElementsAre("p0/0", "p1/0", "p0/1", "p2/0")) << "process " << p;
  }
}

TEST(CommunicatorIdsTest, RefusesCommunicatorsThatThePlansCannotHave) {
  EXPECT_THAT(AgreeOnCommunicatorIds(MakePlans({0}, {{}}), 0, nullptr, Maker(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, "communicator 0 of job 'job' has no ranks"));
  EXPECT_THAT(AgreeOnCommunicatorIds(MakePlans({0}, {{0}, {0, 4}}), 0, nullptr, Maker(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, "communicator 1 of job 'job' has rank 4; there are 1"));
  EXPECT_THAT(AgreeOnCommunicatorIds(MakePlans({1}, {{0}}), 0, nullptr, Maker(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("communicator 0: process 1 made no id for it")));
}

TEST(CommunicatorIdsTest, SaysWhichCommunicatorHasNoIdIfTheLibraryFails) {
  const auto fails = []() -> absl::StatusOr<std::string> { return absl::UnavailableError("no network"); };
  EXPECT_THAT(AgreeOnCommunicatorIds(MakePlans({0}, {{0}}), 0, nullptr, fails),
              StatusIs(absl::StatusCode::kUnavailable, "communicator 0: no network"));
}

}  // namespace
}  // namespace oneflow
