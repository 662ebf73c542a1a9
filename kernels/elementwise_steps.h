// A program of elementwise ops (oneflow_core/elementwise.h) as kernels of all devices make it: steps that give a float
// from one or two, all of an element in slots, rounded to what its value would be stored as. Standard library only, as
// CUDA sources include it.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel.h"
#include "oneflow_core/elementwise_functions.h"

namespace oneflow {

enum class StepOp : uint8_t {
  kCast,
  kScale,
  kAddScalar,
  kNeg,
  kReluGrad,
  kGeluGrad,
#define OF_STEP_OP(Name, ...) k##Name,
  ONEFLOW_UNARY_FUNCTIONS(OF_STEP_OP) ONEFLOW_BINARY_FUNCTIONS(OF_STEP_OP)
#undef OF_STEP_OP
};

// Of as many calls and reads as a program may have.
inline constexpr int kMostSteps = 32, kMostSlots = 29;
inline constexpr int kMostStepInputs = 8, kMostStepOutputs = 4;

struct ElementwiseStep {
  StepOp op = StepOp::kCast;
  DType dtype = DType::kFloat32;  // of what it gives
  uint8_t out = 0, a = 0, b = 0;  // slots; a step of one operand reads `a` alone
  float alpha = 0;
};

struct ElementwiseOperand {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  bool is_scalar = false;
};

// Input i is in slot i, output i in slot `inputs` + i. No step gives what it reads or what a later one still needs.
struct ElementwiseSteps {
  ElementwiseStep steps[kMostSteps];
  ElementwiseOperand operands[kMostStepInputs + kMostStepOutputs];  // inputs first
  int count = 0, inputs = 0, outputs = 0;
  int slots = 0;  // that are used
};

// What the attribute `made_of` says, with the types of the arguments' operands but without their memory. Null if it is
// no program, or names an op that there is no step for.
std::shared_ptr<ElementwiseSteps> MakeElementwiseSteps(const KernelArgs& args);

}  // namespace oneflow
