#include "test/fuzz/memory_use.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> in_use{0}, most{0};

void* Take(size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t now = in_use += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t before = most;
  while (now > before && !most.compare_exchange_weak(before, now)) continue;
  return memory;
}

void GiveBack(void* memory) {
  if (memory != nullptr) in_use -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Take(size); }
void* operator new[](size_t size) { return Take(size); }
void operator delete(void* memory) noexcept { GiveBack(memory); }
void operator delete[](void* memory) noexcept { GiveBack(memory); }
void operator delete(void* memory, size_t) noexcept { GiveBack(memory); }
void operator delete[](void* memory, size_t) noexcept { GiveBack(memory); }

namespace oneflow::testing {

void StartCounting() {
  in_use = 0;
  most = 0;
}
int64_t MostMemory() { return most; }

}  // namespace oneflow::testing
