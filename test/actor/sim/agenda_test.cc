#include "actor/sim/agenda.h"

#include <map>
#include <random>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(AgendaTest, TakesTheEarliestAndOfOneTimeTheFirst) {
  Agenda<char> agenda;
  EXPECT_TRUE(agenda.empty());
  agenda.Add(5, 'c');
  agenda.Add(2, 'a');
  agenda.Add(5, 'd');
  agenda.Add(2, 'b');
  std::string taken;
  while (!agenda.empty()) {
    if (agenda.next_ns() == 5 && taken.size() == 3) agenda.Add(5, 'e');  // while that time is taken
    taken += agenda.Take();
  }
  EXPECT_EQ(taken, "abcde");
  agenda.Add(5, 'f');  // still not before what was taken last
  EXPECT_EQ(agenda.next_ns(), 5);
  EXPECT_EQ(agenda.Take(), 'f');
  EXPECT_TRUE(agenda.empty());
}

TEST(AgendaTest, AgreesWithASortedList) {
  std::mt19937 random(1);
  Agenda<int> agenda;
  std::multimap<int64_t, int> expected;  // of equal keys the first added is first
  int64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 5 < 3 || expected.empty()) {
      const int64_t at = now + random() % 20;
      agenda.Add(at, i);
      expected.emplace(at, i);
    } else {
      now = expected.begin()->first;
      ASSERT_EQ(agenda.next_ns(), now);
      ASSERT_EQ(agenda.Take(), expected.begin()->second);
      expected.erase(expected.begin());
    }
    ASSERT_EQ(agenda.empty(), expected.empty());
  }
}

}  // namespace
}  // namespace oneflow
