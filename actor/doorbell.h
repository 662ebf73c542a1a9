// How a thread sleeps until there is mail: a word in memory, also in memory of several processes.
//
//   sleeper   word = asleep; looks once more; sleeps while the word says so
//   ringer    puts the mail there; word = awake; wakes the sleeper, if the word said that it sleeps
//
// Each side writes first and then reads the other's word, in one order that both see. So either the sleeper finds the
// mail, or the ringer finds it asleep. The mail itself must be written, and looked at, in sequentially consistent
// order.
#pragma once

#include <atomic>
#include <cstdint>

namespace oneflow {

class Doorbell {
 public:
  using Word = std::atomic<uint32_t>;  // 0 at first
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(uint32_t), "the kernel looks at it too");

  // Sleeps until `has_mail` holds. One thread only.
  template <typename HasMail>
  static void Sleep(Word& word, HasMail has_mail) {
    while (!has_mail()) {
      word.store(kAsleep);
      if (!has_mail()) SleepWhileAsleep(word);
    }
    word.store(kAwake, std::memory_order_relaxed);
  }

  // Wakes the thread that sleeps at the word, if one does. Any thread of any process.
  static void Ring(Word& word) {
    if (word.load() == kAsleep && word.exchange(kAwake) == kAsleep) WakeSleeper(word);
  }

 private:
  static constexpr uint32_t kAwake = 0, kAsleep = 1;
  // Returns when woken, or at any other time.
  static void SleepWhileAsleep(Word& word);
  static void WakeSleeper(Word& word);
};

}  // namespace oneflow
