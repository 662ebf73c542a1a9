#include "test/fuzz/memory_use.h"

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// Of all threads. Not std::atomic, whose every operation is a call where tests are compiled without optimisation.
int64_t in_use = 0, most = 0;

void Add(int64_t bytes) {
  const int64_t now = __atomic_add_fetch(&in_use, bytes, __ATOMIC_RELAXED);
  int64_t before = __atomic_load_n(&most, __ATOMIC_RELAXED);
  while (now > before && !__atomic_compare_exchange_n(&most, &before, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

void* Take(size_t size) {
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  Add(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}

void GiveBack(void* memory) {
  if (memory != nullptr) Add(-static_cast<int64_t>(malloc_usable_size(memory)));
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
  __atomic_store_n(&in_use, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&most, 0, __ATOMIC_RELAXED);
}
int64_t MostMemory() { return __atomic_load_n(&most, __ATOMIC_RELAXED); }

}  // namespace oneflow::testing
