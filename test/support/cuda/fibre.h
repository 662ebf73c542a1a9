// A stack of its own, on which a function runs until it suspends itself. Sanitizers are told of every change of stacks.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace oneflow::software_cuda {

// Used by the thread that made it alone.
class Fibre {
 public:
  // Every time it is begun it calls run(argument) once and suspends itself.
  Fibre(void (*run)(void* argument), void* argument);
  Fibre(const Fibre&) = delete;
  ~Fibre();

  // Not on itself. Goes on with it, until it suspends itself.
  void Resume();
  // Begins anew with the next Resume(); what it is in the middle of is given up, and nothing on its stack is destroyed.
  void Restart();

  // On itself: goes on with whoever resumed it; returns when it is resumed.
  void Suspend();
  // The same, and it will be restarted.
  [[noreturn]] void Abandon();

  // The lowest address of the stack, behind a guard that is part of `bytes`.
  const char* stack() const { return stack_; }
  static constexpr size_t kBytes = (size_t{128} << 10) + 4096;

 private:
  static void Enter(boost::context::detail::transfer_t from);
  void Arrive(void* fake_stack, boost::context::detail::fcontext_t resumer);

  void (*const run_)(void*);
  void* const argument_;
  char* stack_ = nullptr;
  boost::context::detail::fcontext_t context_ = nullptr, resumer_ = nullptr;
  const void* resumers_stack_ = nullptr;  // known to sanitizers only
  size_t resumers_bytes_ = 0;
};

}  // namespace oneflow::software_cuda
