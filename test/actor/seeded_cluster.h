// A job of many processes on one thread and a clock of its own: the runtime's actor threads, one rank a process, which
// take turns in an order that a seed draws, over a network that delays what it carries and may lose it, carry it twice
// or out of order; and processes that die. A seed is a run, to the last turn.
//
//   rank 0: actor thread ──► frame (message, what it fills) ──► agenda, by time ──► actor thread: rank 5
//
// An act writes a digest of all that it reads, so that whoever computes with anything else is found out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actor/act_runner.h"
#include "actor/actor_thread.h"
#include "actor/sim/agenda.h"
#include "proto/program.pb.h"
#include "test/actor/test_device.h"

namespace oneflow::testing {

// What befalls one of the frames, or one of the processes; drawn by the seed.
enum class Fault { kNone, kLost, kTwice, kOutOfOrder, kDead };

struct ClusterEnd {
  std::map<std::string, std::vector<uint64_t>> digests;  // by actor, of its acts
  bool all_done = false;
  absl::Status error;     // the first
  std::string struck;     // what the fault has befallen: "register 3", "process 2"; empty: nothing
  std::string diagnosis;  // of those that have come to rest (actor/diagnosis.h); empty if all are done or one failed
};

// Runs `steps` steps of the program's first plan. REQUIRES: it passed CheckProgram; rank r is that of process r.
ClusterEnd RunSeeded(const pb::Program& program, int steps, uint32_t seed, Fault fault);

}  // namespace oneflow::testing
