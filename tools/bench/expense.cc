#include "tools/bench/expense.h"

#include <malloc.h>

#include <chrono>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace oneflow {

double Stopwatch::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Stopwatch::Lap() {
  const double now = Now(), lap = now - last_;
  last_ = now;
  return lap;
}

void ResetPeak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "VmHWM:") || !absl::ConsumeSuffix(&rest, " kB")) continue;
    int64_t kilobytes = 0;
    return absl::SimpleAtoi(rest, &kilobytes) ? kilobytes * 1024 : 0;
  }
  return 0;
}

}  // namespace oneflow
