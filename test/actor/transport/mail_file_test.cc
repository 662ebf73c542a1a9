#include "actor/transport/mail_file.h"

#include <unistd.h>

#include <vector>

#include "actor/transport/message_bus.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Ranks 0, 1 and 2 in processes of their own. Rank 1 reads three slots of 0 and writes two for 2.
TestPlan Row() {
  TestPlan plan({0, 1, 2});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b"), c = plan.Actor(2, "c");
  plan.Register("x", {a}, {{b}}, 3);
  plan.Register("y", {b}, {{c}}, 2);
  return plan;
}

// Of process 1, whose one thread computes.
absl::StatusOr<std::unique_ptr<MailFile>> FileOfMiddle(TestPlan& plan) {
  std::vector<int> thread_of(3 * kNumQueues, -1);
  thread_of[AddressOf(1, kComputeQueue)] = 0;
  return MailFile::Create(plan.set(), 1, /*num_threads=*/1, thread_of);
}

TEST(MailFileTest, CarriesMessagesOfEachSender) {
  TestPlan plan = Row();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> file, FileOfMiddle(plan));
  std::vector<std::pair<int, RingReader>> readers = file->ReadersOf(0);
  ASSERT_EQ(readers.size(), 2);
  for (const int sender : {0, 2}) {
    SCOPED_TRACE(sender);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<PeerMailFile> peer, PeerMailFile::Map(file->announcement(), sender));
    EXPECT_EQ(peer->WriterTo(AddressOf(0, kComputeQueue)), nullptr);
    RingWriter* const writer = peer->WriterTo(AddressOf(1, kComputeQueue));
    ASSERT_NE(writer, nullptr);
    const Message message{.slot = 10 + sender};
    ASSERT_OK(writer->Write({&message, 1}, 0));
    auto& [process, reader] = readers[sender == 0 ? 0 : 1];
    EXPECT_EQ(process, sender);
    std::vector<Message> read;
    ASSERT_OK(reader.TakeAll([&](const Message& x, int64_t) { read.push_back(x); }));
    ASSERT_EQ(read.size(), 1);
    EXPECT_EQ(read[0], message);
  }
}

TEST(MailFileTest, HasRoomForEverySlotThatCanBeOnItsWay) {
  TestPlan plan = Row();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> file, FileOfMiddle(plan));
  ASSERT_EQ(file->announcement().rings_size(), 2);
  EXPECT_EQ(file->announcement().rings(0).capacity(), 3) << "x is filled by process 0";
  EXPECT_EQ(file->announcement().rings(1).capacity(), 2) << "y is freed by process 2";
}

TEST(MailFileTest, AnotherFileOfTheSameNumbersIsNotIt) {
  TestPlan plan = Row();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> file, FileOfMiddle(plan));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> other, FileOfMiddle(plan));
  pb::PeerMail announced = file->announcement();
  announced.set_fd(other->announcement().fd());
  EXPECT_THAT(PeerMailFile::Map(announced, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is another file here than there")));
  announced.set_fd(1 << 20);
  EXPECT_THAT(PeerMailFile::Map(announced, 0), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/proc/")));
}

TEST(MailFileTest, RefusesAnnouncementsThatMakeNoSense) {
  TestPlan plan = Row();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> file, FileOfMiddle(plan));
  const auto with = [&](auto change) {
    pb::PeerMail announced = file->announcement();
    change(announced, *announced.mutable_rings(0));
    return PeerMailFile::Map(announced, 0).status();
  };
  using Mail = pb::PeerMail&;
  using Ring = pb::MailRing&;
  EXPECT_OK(with([](Mail, Ring) {}));
  for (const absl::Status& status : {
           with([](Mail mail, Ring) { mail.set_token("short"); }),
           with([](Mail, Ring ring) { ring.set_offset(ring.offset() + 1); }),
           with([](Mail, Ring ring) { ring.set_offset(0); }),
           with([](Mail, Ring ring) { ring.set_offset(-64); }),
           with([](Mail mail, Ring ring) { ring.set_offset(mail.size() / 64 * 64); }),
           with([](Mail, Ring ring) { ring.set_capacity(UINT32_MAX); }),
           with([](Mail, Ring ring) { ring.set_capacity(0); }),
           with([](Mail mail, Ring ring) { ring.set_bell(mail.size()); }),
           with([](Mail, Ring ring) { ring.set_rank(INT32_MAX); }),
           with([](Mail, Ring ring) { ring.set_queue(77); }),
       }) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in a file of")));
  }
}

}  // namespace
}  // namespace oneflow
