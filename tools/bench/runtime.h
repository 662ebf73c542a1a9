// What the runtime itself costs: programs made by hand, run by the engine as any job's are, with its actor threads,
// mailboxes and kernels (relu of 16 elements), on cpu devices of this machine.
//
//   act       32 actors of a thread in a row, a kernel each: time per act, less the same kernel called in a loop
//   message   the same with eight more registers from each to the next, which carry nothing: what they add, by number
//   hand-over an actor on each of two threads, that wait for each other: half of a step, its act and two messages
//             included; between processes: of two engines that know each other as peers of a host, in this process
//   PyTorch   an eager add of 16 elements, where an interpreter is named
//
// Every figure is the least of several runs, since whatever else the machine does only adds to it; rounds give the
// spread. A hand-over needs two cores that nobody else uses; where others do, `chrt -r 10 oneflow bench` as root has
// them for the few seconds that this takes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tools/bench/bench_case.h"

namespace oneflow {

struct RuntimeFigures {
  double kernel_ns = 0;
  double act_ns = 0;           // beyond its kernel; with the two messages that it takes
  double act_of_eight_ns = 0;  // beyond its eight kernels
  double message_ns = 0;
  double hand_over_ns = 0;
  double waking_ns = 0;   // a hand-over to a thread that sleeps, since only one core is to be used
  double hop_ns = 0;      // a hand-over between processes of the host, with a core each
  double far_hop_ns = 0;  // between processes of different hosts of the plan, over the loopback network
  std::optional<double> eager_op_ns;
};

// `steps` of each program are timed, several times. Errors of Engine::Create and Run.
absl::StatusOr<RuntimeFigures> MeasureRuntime(int steps);
std::string RuntimeText(const std::vector<RuntimeFigures>& rounds, const std::string& pytorch);

BenchCaseMaker MakeRuntimeCase;

}  // namespace oneflow
