// Numbers that nobody else has: the system's entropy, for names of runs and attempts.
#pragma once

#include <cstdint>

namespace oneflow {

uint64_t RandomNumber();

}  // namespace oneflow
