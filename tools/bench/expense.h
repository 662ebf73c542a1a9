// What this process takes: wall time in laps, and the most memory that it held.
#pragma once

#include <cstdint>

namespace oneflow {

// Of wall time.
class Stopwatch {
 public:
  // Seconds since the last lap.
  double Lap();

 private:
  static double Now();

  double last_ = Now();
};

// Forgets the peak of memory so far.
void ResetPeak();
// Since then, or since the process began; 0 if nobody knows.
int64_t PeakBytes();

}  // namespace oneflow
