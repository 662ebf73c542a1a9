// What a plan says each op has to do, and the least time that a device of known rates takes for it.
#pragma once

#include <map>
#include <string>

#include "oneflow_core/op.h"
#include "proto/program.pb.h"
#include "sbp/topology.h"

namespace oneflow {

// What all instructions of one op do in one step, on all ranks.
struct OpWork {
  double calls = 0;
  double flops = 0;          // 0 where the op's definition does not say
  double bytes = 0;          // operands, or both ends of copied boxes: what must be read and written at least
  double floor_seconds = 0;  // of a device of given rates; 0 without one
};
// Of one instruction, once.
OpWork WorkOf(const pb::Instruction& instruction, const OpRegistry& ops);
// Flops per second of products of what the instruction reads first.
double ProductRate(const DeviceSpeeds& device, const pb::Instruction& instruction);
// The longer of two times, in which nothing else is done: its flops at the rate of products, its bytes at the rate of
// memory. Of a table whose rows are looked up only those count that are. What lies in a cache may be faster.
double FloorSeconds(const pb::Instruction& instruction, const OpWork& work, const DeviceSpeeds& device);
// Keys are named as in pb::OpTime. Floors are those of `device` if there is one.
std::map<std::string, OpWork> WorkOfPlan(const pb::Plan& plan, const OpRegistry& ops,
                                         const DeviceSpeeds* device = nullptr);

}  // namespace oneflow
