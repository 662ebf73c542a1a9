// The offset between the steady clocks of two processes, from questions and answers between them.
//
//   asked ──────────► answered       on our clock, on theirs, on ours: the answer was given between the first and the
//   heard ◄──────────┘               last, so the middle is wrong by at most half of the round trip
#pragma once

#include <cstdint>
#include <string>

namespace oneflow {

struct ClockReading {
  int64_t ahead_ns = 0;  // our clock minus theirs
  int64_t error_ns = 0;  // at most
};

inline ClockReading ReadClock(int64_t asked_ns, int64_t answered_ns, int64_t heard_ns) {
  const int64_t way = heard_ns - asked_ns;
  return {.ahead_ns = asked_ns + way / 2 - answered_ns, .error_ns = (way + 1) / 2};
}

// The identity of the steady clock: processes with the same name read the same clock. Empty if that cannot be known.
std::string SteadyClockName();

}  // namespace oneflow
