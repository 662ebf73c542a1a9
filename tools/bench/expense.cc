#include "tools/bench/expense.h"

#include <chrono>

namespace oneflow {

double Stopwatch::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Stopwatch::Lap() {
  const double now = Now(), lap = now - last_;
  last_ = now;
  return lap;
}

}  // namespace oneflow
