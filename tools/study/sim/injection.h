// What goes wrong in a simulation because somebody asked for it: slow ranks, late messages, deaths.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actor/sim/simulator.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct Injection {
  std::map<int, double> slow;      // by rank: its acts take so many times as long
  std::map<int, int64_t> dies_ns;  // by rank
  int64_t delay_ns = 0;            // every act and every message between queues takes up to so much longer
  uint64_t seed = 1;               // of the delays

  // Ranks that are unlike all others.
  std::vector<int> Touched() const;
};

// "5=1.5" (rank=factor) and "5@12.5" (rank@milliseconds), as flags --slow and --kill have them; `delay_ms` of --delay.
// InvalidArgument, with flag and value, if one makes no sense or names a rank that is none of `num_ranks`.
absl::StatusOr<Injection> ParseInjection(const std::vector<std::string>& slow, const std::vector<std::string>& kill,
                                         double delay_ms, uint64_t seed, int num_ranks);

// Costs with the delays and deaths. Which act is how late is a function of the seed and of its numbers.
SimulatedCosts Injected(SimulatedCosts costs, const Injection& injection);

}  // namespace oneflow
