// How much memory this process takes with operator new, counted by a program that links memory_use.cc.
#pragma once

#include <cstdint>

namespace oneflow::testing {

// From here on: what more is taken than given back, at most.
void StartCounting();
int64_t MostMemory();

}  // namespace oneflow::testing
