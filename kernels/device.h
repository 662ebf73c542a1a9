// A device of this host as the runtime sees it: memory, a stream, completion events, and its kernels. Every queue of a
// device has a context of its own, hence a stream of its own; memory of one is memory of all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace oneflow {

struct ActNumbers;      // kernels/kernel.h
class KernelTable;      // kernels/kernel.h
struct CopyRegionArgs;  // kernels/copy.h
struct CopyRowsArgs;    // kernels/copy.h
class HostTransfer;     // kernels/host_transfer.h

// Captured work of a stream. It can be launched again and again as a whole, always on the operands that it was captured
// with. Used by the thread that launches. The context must outlive it.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // Null, or what is wrong.
  virtual const char* Launch() = 0;
};

// Used by the actor thread that serves it, unless said otherwise. Functions that return a text return null, or what is
// wrong.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;

  virtual const KernelTable& kernels() const = 0;

  // Zeroed, 64-byte aligned memory, committed at once; null if there is not enough. Freed with the context. Any thread.
  virtual void* Allocate(size_t num_bytes) = 0;
  // The same of the host's memory, which the device copies from and to while it computes. Where the host addresses the
  // device's memory, both are one.
  virtual void* AllocateOnHost(size_t num_bytes) { return Allocate(num_bytes); }
  virtual const char* CopyToHost(void* host, const void* device, size_t num_bytes) = 0;    // synchronous
  virtual const char* CopyFromHost(void* device, const void* host, size_t num_bytes) = 0;  // synchronous
  // A transfer of up to `num_bytes` at a time between host and device that overlaps with computation. It is staged
  // through `num_bytes` of device memory at `between`, or through memory of its own if that is null. Null if there is
  // not enough memory. The context must outlive it. Any thread.
  virtual std::unique_ptr<HostTransfer> MakeTransfer(size_t num_bytes, void* between);
  // Whether Allocate()d memory can be read and written by the host directly.
  virtual bool host_accessible() const = 0;

  // The stream that kernels are launched on (KernelArgs::stream); null: calls complete before they return.
  virtual void* stream() = 0;
  // Called once on the thread that will launch kernels, before the first: binds the device, sets the core budget.
  virtual const char* BindThread() = 0;
  // The most threads that a kernel uses on a bound thread (KernelArgs::threads).
  virtual int threads() const { return 1; }
  // Records an event behind everything launched so far. On the thread that launches. The default implementations here
  // and below are for devices with a null stream, which have nothing to wait for.
  virtual const char* RecordEvent(int* event);
  // Sleeps until everything before the event has run, then releases the event. One call per event, on any thread. Null,
  // or the error of the work before it.
  virtual const char* WaitEvent(int event);
  // Makes all later launches wait, on the device, for an event of another context of the same device. The event stays
  // valid until GiveBackEvent(). On the thread that launches on both.
  virtual const char* WaitBehind(DeviceContext& other, int event);
  virtual void GiveBackEvent(int event);

  // The time of what is launched in between, on the device's own clock; EndTiming() waits for it. On the thread that
  // launches, one timing at a time.
  virtual const char* BeginTiming();
  virtual const char* EndTiming(double* seconds);

  // Whether work can be captured. Launches between BeginCapture() and EndCapture() do not run; they become one piece of
  // work. If EndCapture() fails, there is none. On the thread that launches.
  virtual bool captures() const { return false; }
  virtual const char* BeginCapture();
  virtual const char* EndCapture(std::unique_ptr<CapturedWork>* work);

  // Where kernels find the numbers of their act (KernelArgs::act); null: in their arguments. SetActNumbers() takes
  // effect in the order of launches. On the thread that launches.
  virtual const ActNumbers* act_numbers() { return nullptr; }
  virtual const char* SetActNumbers(const ActNumbers& numbers);

  // The functions of kernels/copy.h on this device's memory, in the order of its stream. The default implementations
  // run on the host, for devices whose memory it can address. The source may lie on another device of the same kind and
  // process.
  virtual const char* CopyRegion(const CopyRegionArgs& args);
  virtual const char* CopyRows(const CopyRowsArgs& args);  // counts are read when it runs
  virtual const char* FillZero(void* target, size_t num_bytes);
  // Copies between memory of the device and memory of AllocateOnHost(), in the order of its stream.
  virtual const char* Move(void* to, const void* from, size_t num_bytes);

 private:
  std::chrono::steady_clock::time_point timing_began_;  // by the default BeginTiming()
};

// A cpu device that may use `num_cores` cores within a kernel.
std::unique_ptr<DeviceContext> MakeCpuDevice(int num_cores);
struct DeviceMemory {
  int64_t free_bytes = 0, total_bytes = 0;
};
// The memory of a CUDA device; the process has a context on it from then on. Nothing, with the reason in `*why`, if
// there is no such device.
std::optional<DeviceMemory> CudaMemory(int index, std::string* why);

// Which of a device's streams goes first when several have work to begin.
enum class StreamPriority { kNormal, kUrgent };
// Null, with the reason in `*why`, if there is no such device or no CUDA in this build.
std::unique_ptr<DeviceContext> MakeCudaDevice(int index, std::string* why,
                                              StreamPriority priority = StreamPriority::kNormal);

}  // namespace oneflow
