#include "actor/transport/message_ring.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// A ring in memory of this process.
class Ring {
 public:
  explicit Ring(uint32_t capacity)
      : lines_(RingMemory::NumBytes(capacity) / sizeof(Line) + 1),
        writer(memory(), capacity, bell),
        reader(memory(), capacity) {}

  RingMemory& memory() { return *reinterpret_cast<RingMemory*>(lines_.data()); }
  absl::Status Write(std::vector<int> slots) {
    std::vector<Message> messages;
    for (const int slot : slots) messages.push_back({.slot = slot});
    return writer.Write(messages, /*sent_ns=*/7);
  }
  std::vector<int> Read() {
    std::vector<int> slots;
    EXPECT_OK(reader.TakeAll([&](const Message& message, int64_t sent_ns) {
      EXPECT_EQ(sent_ns, 7);
      slots.push_back(message.slot);
    }));
    return slots;
  }

 private:
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> lines_;

 public:
  Doorbell::Word bell{0};
  RingWriter writer;
  RingReader reader;
};

TEST(MessageRingTest, GivesOutWhatWasWrittenInOrderRoundAndRound) {
  Ring ring(3);
  EXPECT_FALSE(ring.reader.HasMail());
  for (int i = 0; i < 100; i += 2) {
    ASSERT_OK(ring.Write({i, i + 1}));
    EXPECT_TRUE(ring.reader.HasMail());
    ASSERT_THAT(ring.Read(), ElementsAre(i, i + 1));
    EXPECT_FALSE(ring.reader.HasMail());
  }
}

TEST(MessageRingTest, WritesAllOrNothing) {
  Ring ring(3);
  ASSERT_OK(ring.Write({1, 2}));
  EXPECT_THAT(ring.Write({3, 4}), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 messages beside 2")));
  ASSERT_OK(ring.Write({3}));
  EXPECT_THAT(ring.Read(), ElementsAre(1, 2, 3));
}

TEST(MessageRingTest, BelievesNoEndWhatCannotBe) {
  Ring ring(3);
  ASSERT_OK(ring.Write({1}));
  ring.memory().entries()[0].message.kind = static_cast<Message::Kind>(9);
  const auto take = [](const Message&, int64_t) { ADD_FAILURE(); };
  EXPECT_THAT(ring.reader.TakeAll(take), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kind 9")));
  ring.memory().written.store(12);
  EXPECT_THAT(ring.reader.TakeAll(take), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("12 messages")));
  ring.memory().read.store(1000);
  EXPECT_THAT(ring.Write({2}), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("in a ring of 3")));
}

TEST(MessageRingTest, LosesNothingOfSeveralThreads) {
  constexpr int kThreads = 3, kMessages = 5000;
  Ring ring(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&ring, t] {
      for (int i = 0; i < kMessages; ++i) {
        while (!ring.Write({t * kMessages + i}).ok()) std::this_thread::yield();
      }
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int read = 0; read < kThreads * kMessages;) {
    Doorbell::Sleep(ring.bell, [&] { return ring.reader.HasMail(); });
    for (const int slot : ring.Read()) {
      ASSERT_EQ(slot % kMessages, next[slot / kMessages]++);
      ++read;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace oneflow
