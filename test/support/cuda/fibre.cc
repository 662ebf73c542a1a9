#include "test/support/cuda/fibre.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace oneflow::software_cuda {
namespace {

namespace context = boost::context::detail;

constexpr size_t kGuardBytes = 4096;

// Around a jump: before it on the stack that is left, behind it on the one that is come to. `fake_stack` keeps what
// ASan has beside the stack that is left, or is null if nobody comes back to it.
void BeginSwitch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* to, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake_stack, to, bytes);
#endif
}
void EndSwitch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** from, [[maybe_unused]] size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
#endif
}
// Frames that were given up have left their red zones.
void Forget([[maybe_unused]] const char* stack, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack, bytes);
#endif
}

}  // namespace

Fibre::Fibre(void (*run)(void*), void* argument) : run_(run), argument_(argument) {
  void* const stack = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kGuardBytes, PROT_NONE) != 0) {
    std::perror("a stack for a thread of a block");
    std::abort();
  }
  stack_ = static_cast<char*>(stack);
  Restart();
}

Fibre::~Fibre() {
  Forget(stack_ + kGuardBytes, kBytes - kGuardBytes);
  munmap(stack_, kBytes);
}

void Fibre::Restart() {
  Forget(stack_ + kGuardBytes, kBytes - kGuardBytes);
  context_ = context::make_fcontext(stack_ + kBytes, kBytes - kGuardBytes, Enter);
}

void Fibre::Resume() {
  void* fake_stack = nullptr;
  BeginSwitch(&fake_stack, stack_ + kGuardBytes, kBytes - kGuardBytes);
  context_ = context::jump_fcontext(context_, this).fctx;
  EndSwitch(fake_stack, nullptr, nullptr);
}

void Fibre::Enter(context::transfer_t from) {
  Fibre& fibre = *static_cast<Fibre*>(from.data);
  fibre.Arrive(nullptr, from.fctx);
  for (;;) {
    fibre.run_(fibre.argument_);
    fibre.Suspend();
  }
}

void Fibre::Arrive(void* fake_stack, context::fcontext_t resumer) {
  resumer_ = resumer;
  EndSwitch(fake_stack, &resumers_stack_, &resumers_bytes_);
}

void Fibre::Suspend() {
  void* fake_stack = nullptr;
  BeginSwitch(&fake_stack, resumers_stack_, resumers_bytes_);
  const context::fcontext_t resumer = context::jump_fcontext(resumer_, nullptr).fctx;
  Arrive(fake_stack, resumer);
}

void Fibre::Abandon() {
  BeginSwitch(nullptr, resumers_stack_, resumers_bytes_);
  context::jump_fcontext(resumer_, nullptr);
  std::abort();  // it is restarted, not resumed
}

}  // namespace oneflow::software_cuda
