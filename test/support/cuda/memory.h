// Memory of software devices: ranges of addresses that no other thread may touch than those that run a stream's work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "test/support/cuda/watch.h"

namespace oneflow::software_cuda {

struct Allocation {
  Region bytes;
  int device = 0;
};

// Lets this thread touch device memory from now on, or no more. Where processors have no protection keys all can.
void AdmitThread(bool may = true);

bool HasProtectionKeys();

// Null if the device has not so much left. Filled with a pattern; allocations lie apart, and no address is used twice.
char* AllocateOn(int device, size_t bytes);
// False if no allocation begins there.
bool FreeOn(int device, void* data);
// What libraries hold there that nobody can address: a context, buffers of a communicator. False if the device has not
// so much left.
bool HoldOn(int device, size_t bytes);
void LetGoOn(int device, size_t bytes);
size_t BytesInUse(int device);
size_t BytesOf(int device);

// The allocation that holds this byte, or none.
std::optional<Allocation> FindAllocation(const void* data);
// Whether this is an address of a device, allocated or not.
bool IsDeviceAddress(const void* data);
// Changes with every allocation that ends.
uint64_t AllocationGeneration();

}  // namespace oneflow::software_cuda
