// How a thread sleeps until somebody has something for it: a word in memory, also in memory that several processes see.
//
//   sleeper   word = asleep; looks once more; sleeps while the word says so
//   ringer    puts it there; word = awake, and wakes the sleeper, if the word said that it sleeps
//
// Each writes first and then looks at what the other wrote, in one order that both see. So either the sleeper finds
// what was put there, or the ringer finds it asleep. What is put there must itself be written, and looked at, in
// sequentially consistent order.
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
