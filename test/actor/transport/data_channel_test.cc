// Channels of two processes, played by one, over the loopback network.
#include "actor/transport/data_channel.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <random>

#include "absl/strings/str_cat.h"
#include "actor/transport/other_hosts.h"
#include "actor/transport/peer_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_plan.h"
#include "test/actor/transport/every_second_run.h"
#include "test/actor/transport/silent_network.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using Use = DataChannel::Use;

Message Filled(int reg, int slot) { return {Message::Kind::kFilled, 0, 0, 5, reg, slot}; }

// Takes what comes, and has room for as much as it was told.
class Taker : public DataChannel::Receiver {
 public:
  void MakeRoom(int reg, size_t bytes) { rooms_[reg].assign(bytes, '\0'); }

  void OnMessages(int, absl::Span<const Message> messages) override {
    Tell([&] { messages_.insert(messages_.end(), messages.begin(), messages.end()); });
  }
  absl::StatusOr<absl::Span<char>> RoomFor(Use, const Message& message, int64_t num_bytes) override {
    std::string& room = rooms_[message.register_id];
    if (static_cast<int64_t>(room.size()) >= num_bytes) return absl::MakeSpan(room);
    return absl::InvalidArgumentError(absl::StrCat(num_bytes, " bytes where there are ", room.size()));
  }
  void OnArrived(int, Use use, const Message& message) override {
    Tell([&] { arrived_.emplace_back(use, message.register_id); });
  }
  void OnChannelLost(int, absl::Status status) override {
    Tell([&] { lost_.push_back(std::move(status)); });
  }

  // Waits until there are so many.
  std::vector<Message> Messages(size_t count) { return Await(messages_, count); }
  std::vector<std::pair<Use, int>> Arrived(size_t count) { return Await(arrived_, count); }
  std::vector<absl::Status> Lost(size_t count) { return Await(lost_, count); }
  const std::string& room(int reg) { return rooms_[reg]; }

 private:
  template <typename Fn>
  void Tell(Fn fn) {
    std::lock_guard<std::mutex> lock(mu_);
    fn();
    changed_.notify_all();
  }
  template <typename T>
  std::vector<T> Await(const std::vector<T>& items, size_t count) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return items.size() >= count; });
    return items;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::map<int, std::string> rooms_;
  std::vector<Message> messages_;
  std::vector<std::pair<Use, int>> arrived_;
  std::vector<absl::Status> lost_;
};

// In plain text, and sealed.
class DataChannelTest : public ::testing::TestWithParam<bool> {
 protected:
  // Process 0 is introduced to process 1, which is introduced to 0; `spoil` may change what 0 learns of 1.
  void Connect(const std::function<void(pb::PeerData&)>& spoil = [](pb::PeerData&) {}) {
    for (int p = 0; p < 2; ++p) {
      ASSERT_OK_AND_ASSIGN(
          channels_[p],
          DataChannel::Create({.process = p, .num_processes = 2, .host = "127.0.0.1", .is_secret = GetParam()}));
    }
    pb::PeerData of_1 = channels_[1]->announcement();
    spoil(of_1);
    ASSERT_OK(channels_[0]->Connect(1, of_1));
    ASSERT_OK(channels_[1]->Connect(0, channels_[0]->announcement()));
    for (int p = 0; p < 2; ++p) channels_[p]->Start(takers_[p]);
  }
  // Sends a message, and a payload of 100 bytes for register 1 of process 1, which has room for it; then closes.
  void SendAMessageAndAPayload() {
    const Message message = Filled(1, 0);
    channels_[0]->SendMessages(1, {&message, 1});
    slots_.emplace_back(200, 'x');
    takers_[1].MakeRoom(1, 100);
    channels_[0]->SendShipment(1, Use::kFilled, Filled(1, 0), Every2nd(1, 100, slots_[0]), 0);
    channels_[0].reset();  // sends first
  }
  void ExpectThatNothingArrived() {
    takers_[1].Lost(1);
    EXPECT_TRUE(takers_[1].Messages(0).empty());
    EXPECT_TRUE(takers_[1].Arrived(0).empty());
  }

  Taker takers_[2];
  // What is sent; outlives the channels, since the address sanitizer looks at it once more when it is on its way.
  std::vector<std::string> slots_;
  std::unique_ptr<DataChannel> channels_[2];
};

class SealedDataChannelTest : public DataChannelTest {};

TEST_P(DataChannelTest, MessagesArriveInTheirOrder) {
  Connect();
  std::vector<Message> sent;
  for (int i = 0; i < 3000; ++i) {
    sent.push_back({Message::Kind::kFreed, 0, 3, i, 2 * i, i % 7});
    if (i % 3 > 0) channels_[0]->SendMessages(1, {&sent.back(), 1});
    if (i % 3 == 0) sent.pop_back();
  }
  std::vector<Message> many;
  for (int i = 0; i < 2000; ++i) many.push_back({Message::Kind::kFilled, 0, 1, i, i, 0});
  channels_[0]->SendMessages(1, many);
  sent.insert(sent.end(), many.begin(), many.end());
  EXPECT_EQ(takers_[1].Messages(sent.size()), sent);
}

TEST_P(DataChannelTest, PayloadsArriveWholeWhateverTheirSizeAndRuns) {
  Connect();
  const uint32_t seed = 9;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{1, 0},       {1, 1},       {1, 100},    {1, 5000},
                                                          {1, 1 << 20}, {3, 100000},  {64, 70000}, {65, 70000},
                                                          {20000, 3},   {1, 30 << 20}};
  for (const auto& [runs, run] : sizes) {
    slots_.emplace_back(2 * runs * run, '\0');
    for (char& c : slots_.back()) c = static_cast<char>(random());
    takers_[1].MakeRoom(static_cast<int>(slots_.size()), runs * run);
  }
  int64_t total = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto [runs, run] = sizes[i];
    const int reg = static_cast<int>(i) + 1;
    channels_[0]->SendShipment(1, i % 2 == 0 ? Use::kFilled : Use::kInitial, Filled(reg, 0),
                               Every2nd(runs, run, slots_[i]), 0);
    total += runs * run;
  }
  const auto arrived = takers_[1].Arrived(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto [runs, run] = sizes[i];
    std::string expected;
    for (int64_t r = 0; r < runs; ++r) expected += slots_[i].substr(2 * r * run, run);
    EXPECT_TRUE(takers_[1].room(static_cast<int>(i) + 1) == expected) << runs << " runs of " << run;
    EXPECT_THAT(arrived,
                ::testing::Contains(std::pair(i % 2 == 0 ? Use::kFilled : Use::kInitial, static_cast<int>(i) + 1)));
  }
  EXPECT_EQ(channels_[0]->bytes_sent(), total);
}

TEST_P(DataChannelTest, APayloadThatDoesNotFitIsNonsense) {
  Connect();
  slots_.emplace_back(200, 'x');
  takers_[1].MakeRoom(1, 64);
  channels_[0]->SendShipment(1, Use::kFilled, Filled(1, 0), Every2nd(1, 100, slots_[0]), 0);
  EXPECT_THAT(takers_[1].Lost(1)[0],
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("data of process 0"), HasSubstr("100 bytes where there are 64"))));
}

TEST_P(DataChannelTest, WhoWasNotIntroducedIsNotHeard) {
  Connect([](pb::PeerData& data) { data.set_stamp(data.stamp() + 1); });
  SendAMessageAndAPayload();
  ExpectThatNothingArrived();
}

TEST_P(SealedDataChannelTest, WhatIsSealedWithAnotherKeyIsDropped) {
  Connect([](pb::PeerData& data) { data.set_key(std::string(32, 'k')); });
  SendAMessageAndAPayload();
  ExpectThatNothingArrived();
  EXPECT_EQ(takers_[1].room(1), std::string(100, '\0')) << "nothing is written before it is known whose it is";
}

TEST_P(SealedDataChannelTest, APeerThatSaysNoKeyIsRefusedWhereAllIsSealed) {
  for (int p = 0; p < 2; ++p) {
    ASSERT_OK_AND_ASSIGN(
        channels_[p],
        DataChannel::Create({.process = p, .num_processes = 2, .host = "127.0.0.1", .is_secret = p == 0}));
  }
  EXPECT_THAT(channels_[0]->Connect(1, channels_[1]->announcement()),
              StatusIs(absl::StatusCode::kInvalidArgument, "process 1 announces: a key of 0 bytes; one has 32"));
}

// Of a network, only where it is and whether it is secret.
class Somewhere final : public testing::SilentNetwork {
 public:
  Somewhere() : SilentNetwork(2, "127.0.0.1:1") {}
};

class Nobody final : public OtherHosts::Listener {
 public:
  void OnMessages(int, absl::Span<const Message>) override {}
  absl::Status Deliver(const Message&) override { return absl::OkStatus(); }
  void OnPeerLost(int, absl::Status) override {}
};

TEST(OtherHostsTest, RefuseAPeerWithAnotherKindOfChannel) {
  TestPlan plan({0, 1});
  plan.set().mutable_ranks(1)->set_host(1);
  const int from = plan.Actor(0, "from"), to = plan.Actor(1, "to");
  plan.Register("x", {from}, {{to}}, 1);
  const JobMemory memory(2);
  const ProgramIds ids(plan.set());
  Nobody listener;
  CoreBudget cores(1);
  OtherHosts others(plan.set(), 0, memory, ids, listener);
  ASSERT_OK(others.Open(Somewhere(), cores));
  ASSERT_NE(others.channel(), nullptr);
  pb::PeerData peer;
  peer.set_address(std::string(64, 'x'));
  peer.set_channel("pigeons");
  EXPECT_THAT(others.Connect(1, peer), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                "process 1 sends data over 'pigeons', process 0 over 'ucx'"));
}

TEST_P(DataChannelTest, APeerThatIsGoneIsToldOnce) {
  Connect();
  const Message message = Filled(1, 0);
  channels_[0]->SendMessages(1, {&message, 1});
  channels_[1]->SendMessages(0, {&message, 1});
  takers_[0].Messages(1);
  takers_[1].Messages(1);
  channels_[1].reset();
  EXPECT_THAT(takers_[0].Lost(1)[0], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("data of process 1")));
  channels_[0]->SendMessages(1, {&message, 1});  // dropped
  EXPECT_EQ(takers_[0].Lost(1).size(), 1);
}

INSTANTIATE_TEST_SUITE_P(Sealed, SealedDataChannelTest, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(InTheOpenAndSealed, DataChannelTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sealed" : "Plain"; });

}  // namespace
}  // namespace oneflow
