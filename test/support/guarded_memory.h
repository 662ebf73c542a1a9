// Memory of exactly the size that was asked for: a read or write of one byte more on the side that is watched ends the
// process, which says what it was doing.
//
//   ┌ no access ┬── usable ──┬ no access ┐       kBehind   the memory ends where the usable part ends
//   └───────────┴────────────┴───────────┘       kBefore   it begins where that begins
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace oneflow::testing {

class GuardedMemory {
 public:
  enum Side { kBefore, kBehind };

  GuardedMemory() {
    void* const all =
        mmap(nullptr, 2 * kGuard + kUsable, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    begin_ = static_cast<char*>(all) + kGuard;
    EXPECT_EQ(mprotect(begin_, kUsable, PROT_READ | PROT_WRITE), 0);
  }
  ~GuardedMemory() { munmap(begin_ - kGuard, 2 * kGuard + kUsable); }
  GuardedMemory(const GuardedMemory&) = delete;

  static constexpr size_t kUsable = size_t{1} << 21;

  // Overlaps what was taken before. REQUIRES: num_bytes <= kUsable.
  char* Take(size_t num_bytes, Side side) const { return side == kBefore ? begin_ : begin_ + kUsable - num_bytes; }

 private:
  // Wide, so that a wrong stride or index does not step over it.
  static constexpr size_t kGuard = size_t{1} << 32;

  char* begin_ = nullptr;
};

// What a process that faults says last, while one of these lives.
class SaidOnFault {
 public:
  SaidOnFault() {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      if (write(STDERR_FILENO, text_, strnlen(text_, sizeof(text_))) >= 0) _exit(1);
      _exit(2);
    };
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &action, nullptr);
  }
  ~SaidOnFault() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, SIG_DFL);
  }
  void Set(const std::string& text) { std::snprintf(text_, sizeof(text_), "\nmemory fault: %s\n", text.c_str()); }

 private:
  static inline char text_[4096] = {};
};

}  // namespace oneflow::testing
