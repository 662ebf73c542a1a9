// The program of a worker for people: `oneflow plan show --process`.
#pragma once

#include <cstdint>
#include <string>

#include "proto/program.pb.h"

namespace oneflow {

// Bytes that boxing reads from other ranks' memory in one step of `plan`, in total: pieces of copies whose source lies
// on another rank, and the received data of collectives, times the acts per step. The runtime's count must be equal.
// REQUIRES: the plan's indices are in range.
int64_t PredictedBytesMoved(const pb::Plan& plan);

// Bytes that ranks send to other hosts in one step of `plan`, gaps between parcels included; for ragged rows the full
// capacity. REQUIRES: as above.
int64_t PredictedBytesSent(const pb::Plan& plan);

// Ranks with their memory, variables with their shards, and per plan the registers, actors and instructions. REQUIRES:
// as above.
std::string ProgramText(const pb::Program& program);

}  // namespace oneflow
