// An instruction as a line of text that says whatever its time depends on, and nothing else: instructions of the same
// text take the same time on a device. What it is called, which layer it is of and where its operands lie is left out.
//
//   matmul(f32[512,128], f32[128,512]) -> f32[512,512] {transpose_b=1}
//   copy f32[256,128] sum: 1x [256,128] in runs of 32768 from its rank, 1x+ [256,128] in runs of 32768 from processes
#pragma once

#include <string>

#include "proto/program.pb.h"

namespace oneflow {

// How far apart two ranks of a host are: "its rank", "ranks" of one process, "processes".
const char* DistanceText(const pb::Program& program, int from, int to);

// REQUIRES: the instruction is one of the actor, the actor one of the plan, the plan one of the program.
std::string InstructionText(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor,
                            const pb::Instruction& instruction);

}  // namespace oneflow
