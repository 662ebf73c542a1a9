// Wall time in laps.
#pragma once

namespace oneflow {

class Stopwatch {
 public:
  // Seconds since the last lap.
  double Lap();

 private:
  static double Now();

  double last_ = Now();
};

}  // namespace oneflow
