// The program of a worker for people: `oneflow plan show --process`.
#pragma once

#include <cstdint>
#include <string>

#include "oneflow_core/frames.h"
#include "proto/program.pb.h"

namespace oneflow {

// Bytes that boxing reads from other ranks' memory in one step of `plan`, in total: pieces of copies whose source lies
// on another rank, and the received data of collectives, times the acts per step. The runtime's count must be equal.
// REQUIRES: the plan's indices are in range.
int64_t PredictedBytesMoved(const pb::Plan& plan);

// What the process of a program, or all of them, sends to other hosts in one step of one of its plans.
struct HostTraffic {
  int64_t payloads = 0;  // bytes; of ragged rows the full capacity
  int64_t pieces = 0;    // of payloads
  int64_t messages = 0;  // of actors, without data

  // Bytes that a network carries: messages one by one, as they mostly go, with the headers of frames. What TCP adds for
  // each packet is not among them.
  int64_t on_the_way() const { return payloads + pieces * kFrameBytes + messages * (kFrameBytes + kMessageBytes); }
};
// REQUIRES: as above.
HostTraffic PredictedTraffic(const pb::Program& program, const pb::Plan& plan);

// Ranks with their memory, variables with their shards, and per plan the registers, actors and instructions. REQUIRES:
// as above.
std::string ProgramText(const pb::Program& program);

}  // namespace oneflow
