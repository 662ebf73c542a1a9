#include "actor/transport/process_bus.h"

#include <map>
#include <string>
#include <utility>

#include "actor/transport/data_channel.h"
#include "actor/transport/peer_network.h"
#include "actor/transport/shipments.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/actor/test_plan.h"
#include "test/actor/transport/silent_network.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Records frames.
class FakeNetwork final : public testing::SilentNetwork {
 public:
  FakeNetwork() : SilentNetwork(4, "fake:1") {}
  void Send(int process, absl::Span<const Message> messages) override {
    frames.emplace_back(process, std::vector<Message>(messages.begin(), messages.end()));
  }

  std::vector<std::pair<int, std::vector<Message>>> frames;
};

// Records frames, and which slots are shipped.
class FakeChannel final : public DataChannel {
 public:
  const pb::PeerData& announcement() const override { return announcement_; }
  absl::Status Connect(int, const pb::PeerData&) override { return absl::OkStatus(); }
  void Start(Receiver&) override {}
  void SendMessages(int process, absl::Span<const Message> messages) override {
    frames.emplace_back(process, std::vector<Message>(messages.begin(), messages.end()));
  }
  void SendShipment(int, Use use, const Message& message, const Shipment&, int32_t slot) override {
    EXPECT_EQ(message.slot, slot);
    shipped.emplace_back(use, message);
  }
  int64_t bytes_sent() const override { return 0; }

  std::vector<std::pair<int, std::vector<Message>>> frames;
  std::vector<std::pair<Use, Message>> shipped;

 private:
  pb::PeerData announcement_;
};

class FakeSink final : public MessageSink {
 public:
  void Post(absl::Span<const Message> messages) override { posts.emplace_back(messages.begin(), messages.end()); }
  std::vector<std::vector<Message>> posts;
};

// The program of process 0, which has ranks 0 and 1. Process 1 (ranks 2, 3) is reached over the network, process 2
// (rank 4) is on another host. Actor a of the program has the number 10 + a in the job, register r has 20 + r.
class ProcessBusTest : public ::testing::Test {
 protected:
  ProcessBusTest() : plan_({0, 0, 1, 1, 2}) {
    for (int rank = 0; rank < 5; ++rank) plan_.Actor(rank, "a");
    plan_.Register("to all", {0}, {{1}, {2}, {3}, {4}}, 1);
    plan_.set().mutable_ranks(4)->set_host(1);
    plan_.set().set_process(0);
    for (int a = 0; a < 5; ++a) plan_.plan().mutable_actors(a)->set_id(10 + a);
    plan_.plan().mutable_registers(0)->set_id(20);
  }

  std::unique_ptr<ProcessBus> MakeBus(Shipments* shipments = nullptr,
                                      std::map<int, std::unique_ptr<PeerMailFile>> files = {}) {
    ids_ = std::make_unique<ProgramIds>(plan_.set());
    auto bus = std::make_unique<ProcessBus>(
        RouteContext{.process = 0,
                     .ids = *ids_,
                     .peers = &network_,
                     .channel = &channel_,
                     .shipments = shipments,
                     .on_error = [this](const absl::Status& status) { errors_.push_back(status.ToString()); }},
        std::vector<int>{0, 0, 1, 1, 2}, std::vector<bool>{false, false, true}, std::move(files));
    for (int rank : {0, 1}) bus->Attach(At(rank), sinks_[rank]);
    return bus;
  }
  static int At(int rank) { return AddressOf(rank, MainQueue()); }
  static Message To(int actor, int slot = 0) { return {.plan = 0, .actor = actor, .register_id = 0, .slot = slot}; }
  static Message InJob(int actor, int slot = 0) {
    return {.plan = 0, .actor = 10 + actor, .register_id = 20, .slot = slot};
  }

  TestPlan plan_;
  std::unique_ptr<ProgramIds> ids_;
  FakeNetwork network_;
  FakeChannel channel_;
  FakeSink sinks_[2];
  std::vector<std::string> errors_;
};

TEST_F(ProcessBusTest, EveryAddressTakesTheFirstRouteThatServesIt) {
  ids_ = std::make_unique<ProgramIds>(plan_.set());
  RingMemory memory{};
  Doorbell::Word bell{};
  RingWriter ring(memory, 0, bell);  // never written
  RouteContext context = {.process = 0, .ids = *ids_};
  const auto name = [&](const RouteEnd& end) { return std::string(KindOf(context, end).name); };
  EXPECT_EQ(name({.process = 0}), "mailbox");
  EXPECT_EQ(name({.process = 1, .ring = &ring}), "ring");
  EXPECT_EQ(name({.process = 1}), "network");
  EXPECT_EQ(name({.process = 2, .is_far = true}), "channel");
  const JobMemory no_memory(5);
  Shipments shipments(plan_.set(), 0, no_memory);
  context.shipments = &shipments;
  EXPECT_EQ(name({.process = 0}), "landing");
  EXPECT_EQ(name({.process = 1}), "network");
  for (const RouteKind& kind : RouteKinds()) EXPECT_NE(kind.make, nullptr) << kind.name;
}

TEST_F(ProcessBusTest, MessagesToOneThreadAreOnePost) {
  const auto bus = MakeBus();
  const std::pair<int, Message> all[] = {{At(0), To(0, 0)}, {At(0), To(0, 1)}, {At(1), To(1)}, {At(0), To(0, 2)}};
  bus->SendAll(all);
  EXPECT_THAT(sinks_[0].posts, ElementsAre(ElementsAre(To(0, 0), To(0, 1)), ElementsAre(To(0, 2))));
  EXPECT_THAT(sinks_[1].posts, ElementsAre(ElementsAre(To(1))));
  EXPECT_THAT(network_.frames, IsEmpty());
}

// Whatever ranks they go to, and whatever is sent elsewhere between them; in the job's numbers, and in their order.
TEST_F(ProcessBusTest, MessagesOfAnActToOneProcessAreOneFrame) {
  const auto bus = MakeBus();
  const std::pair<int, Message> all[] = {{At(2), To(2, 0)}, {At(4), To(4, 0)}, {At(3), To(3)},
                                         {At(0), To(0)},    {At(2), To(2, 1)}, {At(4), To(4, 1)}};
  bus->SendAll(all);
  EXPECT_THAT(network_.frames, ElementsAre(Pair(1, ElementsAre(InJob(2, 0), InJob(3), InJob(2, 1)))));
  EXPECT_THAT(channel_.frames, ElementsAre(Pair(2, ElementsAre(InJob(4, 0), InJob(4, 1)))));
  EXPECT_THAT(sinks_[0].posts, ElementsAre(ElementsAre(To(0))));
  bus->Send(At(2), To(2, 2));
  EXPECT_EQ(network_.frames.size(), 2u) << "nothing is left of the last act";
}

TEST_F(ProcessBusTest, WhatIsReadOnAnotherHostIsShippedWithItsMessage) {
  pb::Shipment& shipment = *plan_.plan().mutable_registers(0)->add_shipments();
  shipment.set_consumer(4);
  const JobMemory no_memory(5);
  Shipments shipments(plan_.set(), 0, no_memory);
  ASSERT_FALSE(shipments.empty());
  const auto bus = MakeBus(&shipments);
  bus->Send(At(4), To(4));
  bus->SendInitial(At(4), To(4));
  EXPECT_THAT(channel_.shipped,
              ElementsAre(Pair(DataChannel::Use::kFilled, InJob(4)), Pair(DataChannel::Use::kInitial, InJob(4))));
  EXPECT_THAT(channel_.frames, IsEmpty());
  bus->Send(At(2), To(2));
  EXPECT_THAT(network_.frames, ElementsAre(Pair(1, ElementsAre(InJob(2)))));
}

// A ring has room for everything that can be on its way, so more than that is wrong.
TEST_F(ProcessBusTest, ARingThatIsFullIsAnError) {
  std::vector<int> thread_of(5 * kNumQueues, -1);
  thread_of[At(2)] = thread_of[At(3)] = 0;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> theirs, MailFile::Create(plan_.set(), 1, 1, thread_of));
  std::map<int, std::unique_ptr<PeerMailFile>> files;
  ASSERT_OK_AND_ASSIGN(files[1], PeerMailFile::Map(theirs->announcement(), 0));
  const auto bus = MakeBus(nullptr, std::move(files));
  bus->Send(At(2), To(2));
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_THAT(network_.frames, IsEmpty());
  std::vector<Message> read;
  for (auto& [process, ring] : theirs->ReadersOf(0)) {
    EXPECT_OK(ring.TakeAll([&](const Message& message, int64_t) { read.push_back(message); }));
  }
  EXPECT_THAT(read, ElementsAre(InJob(2)));
  for (int i = 0; i < 100 && errors_.empty(); ++i) bus->Send(At(3), To(3));
  ASSERT_FALSE(errors_.empty());
  EXPECT_THAT(errors_[0], HasSubstr("to rank 3"));
}

}  // namespace
}  // namespace oneflow
