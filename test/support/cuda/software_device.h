// A CUDA device in software: what the stand-ins of NVIDIA's libraries, and tests, ask of it beyond the runtime's own
// calls (include/cuda_runtime.h).
//
//   host thread ──Enqueue──► stream (a thread of its own) ──► kernels, copies, products, in order, after random delays
//                                                             touch device memory, which no other thread may
//
// What a program does wrong on a device (touches what is not its own, waits where not all come) is a defect: it is kept
// here as a line that names the place, for a test to look at, and the device fails with cudaErrorIllegalAddress or
// cudaErrorLaunchFailure from then on, as a GPU does.
//
// Faults can be ordered: by the functions below, or for a process by the environment. DEVICE is the number that the
// process sees, WORK counts what the device does (WorkOf).
//
//   SOFTWARE_CUDA_FAULT=DEVICE:WORK[:ERROR]   the work fails with that cudaError_t (719, a launch failure, unless said)
//   SOFTWARE_CUDA_HANG=DEVICE:WORK            the work never ends, so nothing behind it on its stream begins
//   SOFTWARE_CUDA_MEGABYTES=SIZE              memory of every device (8192); libraries take theirs of it too
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace oneflow::software_cuda {

// Runs `work` on the stream's thread behind everything that was enqueued on it before, and returns at once. `name` is
// what reports call it. The device's error if it has failed, or cudaErrorInvalidResourceHandle if there is no such
// stream; then `work` never runs. Null is the current device's default stream. Any thread.
cudaError_t Enqueue(cudaStream_t stream, std::string name, std::function<void()> work);

// What work of a library reads or writes.
struct Operand {
  const char* name;
  const void* data;
  size_t bytes;
  bool written;
  bool on_any_device = false;  // as of copies, which go from device to device
};

// For work of a library: whether each operand lies in one allocation of the device whose stream runs the work, and what
// is written lies where no other operand is. A defect that names operands if not. REQUIRES: called by work, on its
// stream's thread.
bool CheckOperands(const std::vector<Operand>& operands);

// Keeps a defect, "<name of the work>: <what>", and fails the device whose stream runs the work, unless `error` is
// cudaSuccess; on other threads "<what>", and no device.
void Report(const std::string& what, cudaError_t error = cudaErrorIllegalAddress);

// The device fails, as if work on it had done what it must not: now, or in place of its work of that number. Nobody is
// told when it happens: the launch has succeeded. Whichever call comes next returns the error, a waiting one when the
// wait is over, and so does every later one.
void FailDevice(int device, cudaError_t error = cudaErrorLaunchFailure);
void FailDeviceAtWork(int device, int64_t number, cudaError_t error = cudaErrorLaunchFailure);
// The device's work of that number does not end before ForgetErrors(), as a kernel that waits for what never comes.
void HangDeviceAtWork(int device, int64_t number);
// How much work the device has begun: kernels, copies, collectives; the number of the last.
int64_t WorkOf(int device);

// How often collectives, sends and receives were launched, on all devices: a group of them is one.
int64_t CollectiveLaunches();

// How much was launched so far, on all devices.
struct Launched {
  int64_t threads = 0;          // of kernels
  int64_t multiplications = 0;  // of products
  int64_t copies_to_host = 0;
  int64_t graphs = 0;
};
Launched LaunchedSoFar();

// As tensor cores read a float that they multiply as TF32: 10 bits of its fraction, to nearest even.
float RoundToTf32(float x);

// Of how many algorithms the library's products have the choice. They compute the same; how long each takes beside that
// is said here, 0 to begin with. How many products took which.
inline constexpr int kProductAlgorithms = 3;
void SetTimesOfProducts(const std::array<int, kProductAlgorithms>& microseconds);
std::array<int64_t, kProductAlgorithms> ProductsByAlgorithm();

// What libraries hold of a device's memory beside what their callers allocate: about what the real ones hold on an
// H100.
inline constexpr size_t kContextBytes = size_t{512} << 20;   // of a process, from its first call on the device
inline constexpr size_t kCublasLtBytes = size_t{32} << 20;   // of a handle
inline constexpr size_t kCudnnBytes = size_t{64} << 20;      // of a handle
inline constexpr size_t kNcclRankBytes = size_t{384} << 20;  // of a communicator, for each rank on the device

// How urgent each stream of the device is that was made and is not gone, in the order in which they were made: the
// less, the more urgent.
std::vector<int> StreamPriorities(int device);

// How many ranks of communicators have made a call, which lets NCCL connect them, and how many kernels were launched,
// which lets CUDA load them.
int64_t ConnectedRanks();
int64_t LoadedKernels();

// How long cuDNN's convolutions take beside what they compute, by its number of the algorithm; 0 to begin with.
inline constexpr int kConvolutionAlgorithms = 8;
void SetTimesOfConvolutions(const std::array<int, kConvolutionAlgorithms>& microseconds);

// How often kernels were launched, or put into graphs, whose names have this part.
int64_t KernelLaunches(const std::string& part_of_name);

// The defects since the last call.
std::vector<std::string> TakeDefects();

// For tests of a device itself: its errors, the faults that were ordered, and the last errors of this thread, are gone,
// as after a new start. Work that hangs ends.
void ForgetErrors();

// Whether threads of the host that touch device memory die of it; false where the processor has no protection keys.
bool HostIsKeptOut();

// What follows is in other orders, as far as CUDA leaves the order open: delays of streams, order of blocks and of a
// block's threads.
void SetSeed(uint64_t seed);

}  // namespace oneflow::software_cuda
