// AMX on a processor that has none, for tests: while one is there, instructions on tiles, which the processor does not
// know, are decoded and carried out by the handler of the signal that they raise. So the very code that a processor
// with AMX would run can be tested anywhere: its encodings, its operands, the order of its stores and loads, and that
// each thread configures its tiles before it uses them. About a microsecond an instruction.
//
// It is no processor: the permission that the system gives is not asked for, and nothing is said about speed.
#pragma once

#include <csignal>
#include <cstdint>

namespace oneflow::testing {

// One at a time. Any other unknown instruction, and one on tiles that are not configured, ends the process with a line
// that says which, as it would end without it.
class TileTrap {
 public:
  TileTrap();
  ~TileTrap();
  TileTrap(const TileTrap&) = delete;
  TileTrap& operator=(const TileTrap&) = delete;

  // Instructions of all threads since it was made.
  int64_t count() const;

 private:
  struct sigaction before_;
};

}  // namespace oneflow::testing
