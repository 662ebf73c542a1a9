// Lists of kernels. A macro names the same function for several types of elements, or all functions of a family that
// holds the same ones on every device. A source of such a family defines the functions and returns the list; a device
// that lacks one of them does not compile:
//
//   KernelList PadKernels() { return {OF_PAD_KERNELS}; }
//
// BFloat16 and Float16 are the types of the device's namespace. What follows a function are further members of Kernel.
#pragma once

#include "kernels/families.h"

// Function<T> for the three floating types.
#define OF_FLOAT_KERNELS(op, Function, ...)                                    \
  {op, DType::kFloat32, Function<float> __VA_OPT__(, ) __VA_ARGS__},           \
      {op, DType::kBFloat16, Function<BFloat16> __VA_OPT__(, ) __VA_ARGS__}, { \
    op, DType::kFloat16, Function<Float16> __VA_OPT__(, ) __VA_ARGS__          \
  }

// Function<T> for all types.
#define OF_TYPED_KERNELS(op, Function, ...)                                \
  OF_FLOAT_KERNELS(op, Function __VA_OPT__(, ) __VA_ARGS__),               \
      {op, DType::kInt32, Function<int32_t> __VA_OPT__(, ) __VA_ARGS__},   \
      {op, DType::kInt64, Function<int64_t> __VA_OPT__(, ) __VA_ARGS__},   \
      {op, DType::kUInt8, Function<uint8_t> __VA_OPT__(, ) __VA_ARGS__}, { \
    op, DType::kBool, Function<bool> __VA_OPT__(, ) __VA_ARGS__            \
  }

// One function for the three floating types.
#define OF_FLOAT_KERNEL(op, Function, ...)                           \
  {op, DType::kFloat32, Function __VA_OPT__(, ) __VA_ARGS__},        \
      {op, DType::kBFloat16, Function __VA_OPT__(, ) __VA_ARGS__}, { \
    op, DType::kFloat16, Function __VA_OPT__(, ) __VA_ARGS__         \
  }

// One function for all types.
#define OF_UNTYPED_KERNEL(op, Function)                                                        \
  OF_FLOAT_KERNEL(op, Function), {op, DType::kInt32, Function}, {op, DType::kInt64, Function}, \
      {op, DType::kUInt8, Function}, {                                                         \
    op, DType::kBool, Function                                                                 \
  }

#define OF_INDEX_KERNELS                                                                      \
  {"gather", DType::kFloat32, Gather}, {"scatter_add", DType::kFloat32, ScatterAdd},          \
      {"take_along", DType::kFloat32, TakeAlong}, {"put_along", DType::kFloat32, PutAlong}, { \
    "top_k", DType::kFloat32, TopK                                                            \
  }

#define OF_AVG_POOL2D_KERNELS                                                                    \
  OF_FLOAT_KERNELS("avg_pool2d", AvgPool2d), OF_FLOAT_KERNELS("avg_pool2d_grad", AvgPool2dGrad), \
      OF_FLOAT_KERNELS("adaptive_avg_pool2d", AvgPool2d), OF_FLOAT_KERNELS("adaptive_avg_pool2d_grad", AvgPool2dGrad)

// NameKernel<T> of each row of the tables of comparisons and of logical functions.
#define OF_COMPARE_KERNELS \
  ONEFLOW_COMPARISONS(OF_COMPARISON_ROW) ONEFLOW_LOGICAL_FUNCTIONS(OF_LOGICAL_ROW) OF_TYPED_KERNELS("where", Where)
#define OF_COMPARISON_ROW(Name, op, ...) OF_TYPED_KERNELS(#op, Name##Kernel),
#define OF_LOGICAL_ROW(Name, op, ...) {#op, DType::kBool, Name##Kernel<bool>},

#define OF_PAD_KERNELS OF_TYPED_KERNELS("pad", Pad)

#define OF_REPLICA_KERNELS \
  OF_UNTYPED_KERNEL("replica_digest", ReplicaDigest), OF_UNTYPED_KERNEL("assert_replicas", AssertReplicas)

#define OF_SOFTMAX_PARTS_KERNELS                                                                     \
  OF_FLOAT_KERNELS("softmax_sums", SoftmaxSums), OF_FLOAT_KERNELS("softmax_loss", SoftmaxLoss),      \
      OF_FLOAT_KERNELS("exp_sum", ExpSum), OF_FLOAT_KERNELS("softmax_apply", SoftmaxApply),          \
      OF_FLOAT_KERNELS("row_dot", RowDot), OF_FLOAT_KERNELS("softmax_grad_apply", SoftmaxGradApply), \
      OF_FLOAT_KERNELS("first_index", FirstIndex), {                                                 \
    "same_index", DType::kInt32, SameIndex                                                           \
  }

#define OF_STATE_KERNELS                                                                                  \
  OF_TYPED_KERNELS("constant", Constant), OF_FLOAT_KERNELS("arange", Arange),                             \
      {"arange", DType::kInt32, Arange<int32_t>}, {"arange", DType::kInt64, Arange<int64_t>},             \
      OF_TYPED_KERNELS("literal", Literal, nullptr, PrepareLiteral), OF_UNTYPED_KERNEL("assign", Assign), \
      {"step_mean", DType::kFloat32, StepMean}, {"increment", DType::kInt64, Increment},                  \
      OF_FLOAT_KERNEL("accumulate", Accumulate), {"accumulate", DType::kInt32, Accumulate}, {             \
    "accumulate", DType::kInt64, Accumulate                                                               \
  }

// `...`: further members of the kernel of AdamW.
#define OF_OPTIMIZER_KERNELS(...)                                                                                   \
  OF_UPDATE_RULES(OF_UPDATE_RULE){"clip_scale", DType::kFloat32, ClipScale}, {"unscale", DType::kFloat32, Unscale}, \
      {"loss_scale_update", DType::kFloat32, LossScaleUpdate}, {"lr_schedule", DType::kInt64, LrSchedule},          \
      {"adamw_update", DType::kFloat32, AdamwUpdate __VA_OPT__(, ) __VA_ARGS__},                                    \
      {"ema_update", DType::kFloat32, EmaUpdate}, {"average_update", DType::kFloat32, AverageUpdate},               \
      {"guarded_assign", DType::kFloat32, GuardedAssign}, {"trust_ratio", DType::kFloat32, TrustRatio},             \
      {"bias_correction", DType::kInt64, BiasCorrection}, {                                                         \
    "step_power", DType::kInt64, StepPower                                                                          \
  }
#define OF_UPDATE_RULE(Rule, op) {op, DType::kFloat32, UpdateBy<Rule>},

// NameKernel<T> of each row of the table of unary functions, for the types that its precision allows.
#define OF_UNARY_KERNELS                                                                                     \
  ONEFLOW_UNARY_FUNCTIONS(OF_UNARY_ROW)                                                                      \
  OF_FLOAT_KERNELS("scale", Scale), OF_FLOAT_KERNELS("add_scalar", AddScalar), OF_FLOAT_KERNELS("neg", Neg), \
      ONEFLOW_GRADIENT_FUNCTIONS(OF_GRADIENT_ROW) OF_FLOAT_KERNELS("add_relu_grad", AddReluGrad)
#define OF_GRADIENT_ROW(Name, op, ...) OF_FLOAT_KERNELS(#op, Name##Kernel),
#define OF_UNARY_ROW(Name, op, f, dx, precision, ...) OF_UNARY_##precision(Name, op)
#define OF_UNARY_kFull(Name, op) {#op, DType::kFloat32, Name##Kernel<float>},
#define OF_UNARY_kFollow(Name, op) OF_FLOAT_KERNELS(#op, Name##Kernel),
