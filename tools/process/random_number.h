// Numbers that nobody else has: the system's entropy, for names of runs and attempts.
#pragma once

#include <cstdint>
#include <random>

namespace oneflow {

inline uint64_t RandomNumber() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace oneflow
