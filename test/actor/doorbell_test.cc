#include "actor/doorbell.h"

#include <thread>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(DoorbellTest, WhoHasMailDoesNotSleep) {
  Doorbell::Word word{0};
  Doorbell::Sleep(word, [] { return true; });
  EXPECT_EQ(word.load(), 0);
}

// Each turn of the two is lost for ever if a ring is.
TEST(DoorbellTest, NoRingIsLost) {
  constexpr int kTurns = 20000;
  Doorbell::Word ping{0}, pong{0};
  std::atomic<int> turn{0};
  std::thread other([&] {
    for (int i = 1; i < kTurns; i += 2) {
      Doorbell::Sleep(pong, [&] { return turn.load() == i; });
      turn.store(i + 1);
      Doorbell::Ring(ping);
    }
  });
  for (int i = 0; i < kTurns; i += 2) {
    Doorbell::Sleep(ping, [&] { return turn.load() == i; });
    turn.store(i + 1);
    Doorbell::Ring(pong);
  }
  other.join();
  EXPECT_EQ(turn.load(), kTurns);
}

}  // namespace
}  // namespace oneflow
