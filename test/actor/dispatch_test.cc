// What lies between two kernels of one actor thread: no memory is asked for, no mutex taken, no thread woken. The
// program's own operator new and the functions under std::mutex, std::condition_variable and futexes are replaced by
// some that count on the thread of these kernels, from one of a step to one of a later step: what other threads do
// meanwhile, such as the one that waits for the run, is theirs. Sanitizers replace the same functions, so this is for
// programs without them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <new>

#include "actor/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

struct DispatchCounts {
  std::atomic<int64_t> allocations{0}, locks{0}, calls{0}, acts{0};
};
DispatchCounts counted;
constinit thread_local bool counts = false;

void CountOne(std::atomic<int64_t>& counter) {
  if (counts) counter.fetch_add(1, std::memory_order_relaxed);
}

// What the C library has under a name, looked up by the first call. Not a static of the function that calls it: two
// threads that come first would meet at its guard, and the guard waits by calling what is replaced here.
template <typename Fn>
class Original {
 public:
  explicit constexpr Original(const char* name) : name_(name) {}
  Fn* get() {
    Fn* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Fn*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

 private:
  const char* name_;
  std::atomic<Fn*> function_{nullptr};
};
constinit Original<int(pthread_mutex_t*)> original_lock("pthread_mutex_lock");
constinit Original<int(pthread_cond_t*)> original_signal("pthread_cond_signal");
constinit Original<long(long, ...)> original_syscall("syscall");

}  // namespace
}  // namespace oneflow

void* operator new(size_t num_bytes) {
  oneflow::CountOne(oneflow::counted.allocations);
  if (void* memory = std::malloc(num_bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

extern "C" {
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  oneflow::CountOne(oneflow::counted.locks);
  return oneflow::original_lock.get()(mutex);
}
int pthread_cond_signal(pthread_cond_t* condition) {
  oneflow::CountOne(oneflow::counted.calls);
  return oneflow::original_signal.get()(condition);
}
// Whoever uses futexes or other calls of the system by number: Abseil, and waiting on atomics.
long syscall(long number, ...) noexcept {
  oneflow::CountOne(oneflow::counted.calls);
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& x : a) x = va_arg(list, long);
  va_end(list);
  return oneflow::original_syscall.get()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
}

namespace oneflow {
namespace {

constexpr int64_t kFirst = 20, kSteps = 1000;  // counted, after steps in which queues find their sizes

// Begins and ends to count.
const char* WatchKernel(const KernelArgs& args) {
  if (args.step == kFirst) counts = true;
  if (args.step == kFirst + kSteps) counts = false;
  CountOne(counted.acts);
  return oneflow::testing::PositionKernel(args);
}

class WatchingDevice : public TestDevice {
 public:
  const KernelTable& kernels() const override { return kernels_; }

 private:
  const KernelTable kernels_{
      {{.op = "position", .run = WatchKernel}, {.op = "accumulate", .run = oneflow::testing::AccumulateKernel}}};
};

TEST(DispatchTest, SeesWhatItCounts) {
  std::mutex mutex;
  std::condition_variable condition;
  counts = true;
  delete new std::string(100, 'x');
  {
    const std::lock_guard<std::mutex> lock(mutex);
    condition.notify_one();
  }
  syscall(0, -1, nullptr, 0);  // reads from nowhere
  counts = false;
  EXPECT_GE(counted.allocations.exchange(0), 2);
  EXPECT_EQ(counted.locks.exchange(0), 1);
  EXPECT_EQ(counted.calls.exchange(0), 2);
}

// A source that two read, sums over micro-batches, and what waits for both; on one thread, in registers of one slot and
// of two.
TEST(DispatchTest, NeitherAllocatesNorLocksOnTheWayOfLocalActs) {
  constexpr int kMicroBatches = 4;
  TestPlan p({0}, kMicroBatches);
  const int source = p.Actor(0, "source", kMicroBatches), left = p.Actor(0, "left", kMicroBatches),
            right = p.Actor(0, "right", kMicroBatches, /*priority=*/3), end = p.Actor(0, "end");
  const int data = p.Register("data", {source}, {{left}, {right}}, /*slots=*/2);
  const int l = p.Register("l", {left, kMicroBatches}, {{end}}, 1);
  const int r = p.Register("r", {right, kMicroBatches}, {{end}}, 2);
  p.Register("again", {end}, {{source, kMicroBatches}}, 1, /*elements=*/4, /*initially_filled=*/1);
  p.Compute(source, "position", {}, {data});
  p.Instruct(left, pb::Instruction::COMPUTE, "accumulate", {data}, {l});
  p.Instruct(right, pb::Instruction::COMPUTE, "accumulate", {data}, {r});
  const int total = p.Register("total", {end}, {}, 1);
  for (const int part : {l, r}) p.Instruct(end, pb::Instruction::COMPUTE, "accumulate", {part}, {total});

  EngineOptions options;
  options.ops = &oneflow::testing::TestOps();
  options.open_device = [](const Device&, int) -> absl::StatusOr<std::unique_ptr<DeviceContext>> {
    return std::make_unique<WatchingDevice>();
  };
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(p.set(), options);
  ASSERT_OK(engine.status());
  ASSERT_OK((*engine)->Run("p", 0, kFirst + kSteps + 1));
  EXPECT_EQ((*engine)->stats().acts, (kFirst + kSteps + 1) * (3 * kMicroBatches + 1));
  EXPECT_EQ(counted.acts, kSteps * kMicroBatches);
  EXPECT_EQ(counted.allocations, 0);
  EXPECT_EQ(counted.locks, 0);
  EXPECT_EQ(counted.calls, 0);
}

}  // namespace
}  // namespace oneflow

#endif
