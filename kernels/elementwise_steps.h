// A program of elementwise ops (oneflow_core/elementwise.h) in the form that kernels interpret. Each step computes a
// float from one or two others; the values of an element are in slots. A value is rounded to the type in which its
// tensor would be stored. Standard library only, so that CUDA sources may include it.
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
#define OF_STEP_OP(Name, ...) k##Name,
  ONEFLOW_UNARY_FUNCTIONS(OF_STEP_OP) ONEFLOW_GRADIENT_FUNCTIONS(OF_STEP_OP) ONEFLOW_BINARY_FUNCTIONS(OF_STEP_OP)
#undef OF_STEP_OP
};

// The limits of a program.
inline constexpr int kMostSteps = 32, kMostSlots = 29;
inline constexpr int kMostStepInputs = 8, kMostStepOutputs = 4;

struct ElementwiseStep {
  StepOp op = StepOp::kCast;
  DType dtype = DType::kFloat32;  // of the result
  uint8_t out = 0, a = 0, b = 0;  // slots; a step of one operand reads `a` alone
  float alpha = 0;
};

struct ElementwiseOperand {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  bool is_scalar = false;
};

// Input i is in slot i, output i in slot `inputs` + i. A step's result never overwrites its operands, or a slot that a
// later step reads.
struct ElementwiseSteps {
  ElementwiseStep steps[kMostSteps];
  ElementwiseOperand operands[kMostStepInputs + kMostStepOutputs];  // inputs first
  int count = 0, inputs = 0, outputs = 0;
  int slots = 0;  // in use
};

// The program of the attribute `made_of`, with the types of the operands but without their memory. Null if the
// attribute is no program, or uses an op that has no step.
std::shared_ptr<ElementwiseSteps> MakeElementwiseSteps(const KernelArgs& args);

}  // namespace oneflow
