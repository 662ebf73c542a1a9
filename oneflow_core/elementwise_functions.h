// The elementwise functions: a row each. All else about such an op follows from its row:
//
//   type inference, rule, gradient     oneflow_core/ops/{unary,binary,compare}.cc
//   the DSL's function                 oneflow_core/functional.h
//   kernels of all device kinds        kernels/{cpu,cuda}/float_functions, {unary,binary,compare}
//   a step of `elementwise`            kernels/elementwise_steps.h, kernels/{cpu,cuda}/elementwise; not of comparisons
//   reference, cases, parity           test/support/ops/{unary,binary,compare}.cc, test/parity/op_functions.py
//
// A new function needs its row, the op's line in oneflow_core/ops/README.md and the golden file of gradients
// (test/golden/ops, written by ONEFLOW_UPDATE_GOLDENS=1); and a line in test/parity/op_functions.py if PyTorch has it
// under another name.
//
// A function is an expression that is compiled for vectors of floats (kernels/cpu), for one float (kernels/cuda) and
// for doubles (the tests' reference). It may use + - * /, float literals, comparisons, and what each of these defines:
//
//   Exp  Log  Log1p  Sqrt  Sin  Cos  Tanh  Erf  Abs  Choose(condition, a, b)
//   Phi (the normal distribution)  GeluSlope (the derivative of x Phi(x))
//
// Macros and the standard library only: CUDA sources include this.
#pragma once

// clang-format off: rows of a table

// (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)) with u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016), for sign =
// 1; of -u for sign = -1.
#define ONEFLOW_GELU_SIGMOID(sign, x) (1.0f / (1.0f + Exp(-sign * 1.5957691f * x * (1.0f + 0.044715f * x * x))))

// y = f(x): F(Name, op, f, dx, precision, low, high)
//   dx         the gradient, a formula in dy, x and y, of what `Formula` in ops/unary.cc has. Constants are doubles.
//   precision  kFollow: computed in narrow types too; kFull: in f32 alone (op.h)
//   low, high  tests draw x from here: f is defined there and does not overflow
// The ReLU lets a NaN through, which is not below 0.
#define ONEFLOW_UNARY_FUNCTIONS(F)                                                                        \
  F(Exp, exp, Exp(x), dy* y, kFull, -2, 2)                                                                \
  F(Log, log, Log(x), dy / x, kFull, 0.5, 3)                                                              \
  F(Sqrt, sqrt, Sqrt(x), 0.5 * (dy / y), kFull, 0.5, 3)                                                   \
  F(Rsqrt, rsqrt, 1.0f / Sqrt(x), -0.5 * (dy * (Square(y) * y)), kFull, 0.5, 3)                           \
  F(Square, square, x* x, 2.0 * (dy * x), kFull, -2, 2)                                                   \
  F(Tanh, tanh, Tanh(x), dy*(1.0 - Squared(y)), kFollow, -2, 2)                                           \
  F(Sigmoid, sigmoid, 1.0f / (1.0f + Exp(-x)), dy * (y * (1.0 - y)), kFollow, -2, 2)                      \
  F(Relu, relu, Choose(x < 0.0f, 0.0f, x), ReluGrad(dy, y), kFollow, -2, 2)                               \
  F(Gelu, gelu, x* Phi(x), GeluGrad(dy, x), kFollow, -2, 2)                                               \
  F(Abs, abs, Abs(x), dy* Sign(x), kFollow, -2, 2)                                                        \
  F(Sign, sign, Choose(x > 0.0f, 1.0f, Choose(x < 0.0f, -1.0f, 0.0f)), 0.0 * dy, kFollow, -2, 2)          \
  F(Softsign, softsign, x / (1.0f + Abs(x)), dy * Squared(1.0 - Abs(y)), kFollow, -2, 2)                  \
  F(Softplus, softplus, Choose(x < 0.0f, 0.0f, x) + Log1p(Exp(-Abs(x))), dy * Sigmoid(x), kFollow, -2, 2) \
  F(Silu, silu, x / (1.0f + Exp(-x)), SiluGrad(dy, x), kFollow, -2, 2)                                    \
  F(GeluTanh, gelu_tanh, x* ONEFLOW_GELU_SIGMOID(1.0f, x), GeluTanhGrad(dy, x), kFollow, -2, 2)           \
  F(Reciprocal, reciprocal, 1.0f / x, -1.0 * (dy * Squared(y)), kFull, 0.5, 3)                            \
  F(Sin, sin, Sin(x), dy* Cos(x), kFull, -2, 2)                                                           \
  F(Cos, cos, Cos(x), -1.0 * (dy * Sin(x)), kFull, -2, 2)                                                 \
  F(Erf, erf, Erf(x), 1.1283791670955126 * (dy * Exp(-1.0 * Squared(x))), kFull, -2, 2)

// Gradients that are ops of their own, since every model has them, or since several ops would round several times: dx =
// f(dy, x), of one shape: F(Name, op, f). Rows of ONEFLOW_UNARY_FUNCTIONS name them. relu_grad is given y for x.
#define ONEFLOW_GRADIENT_FUNCTIONS(F)                                               \
  F(ReluGrad, relu_grad, Choose(x <= 0.0f, 0.0f, dy))                               \
  F(GeluGrad, gelu_grad, dy* GeluSlope(x))                                          \
  F(SiluGrad, silu_grad, dy / (1.0f + Exp(-x)) * (1.0f + x - x / (1.0f + Exp(-x)))) \
  F(GeluTanhGrad, gelu_tanh_grad,                                                   \
    dy* ONEFLOW_GELU_SIGMOID(1.0f, x) *                                             \
        (1.0f + ONEFLOW_GELU_SIGMOID(-1.0f, x) * 1.5957691f * x * (1.0f + 0.134145f * x * x)))

// c = f(a, b) with NumPy broadcasting: F(Name, op, f, linear, elements); its gradient is Name##Grad in ops/binary.cc.
//   linear    what the factor rule adds: the operands in which f is linear
//   elements  kNumber: integers too; kFloat
// A NaN in either operand of maximum and minimum comes out. heaviside is 1 beside a NaN, which is neither less nor
// equal.
#define ONEFLOW_BINARY_FUNCTIONS(F)                                 \
  F(Add, add, a + b, "; linear 0 1", kNumber)                       \
  F(Sub, sub, a - b, "; linear 0 1", kNumber)                       \
  F(Mul, mul, a* b, "; linear 0; linear 1", kNumber)                \
  F(Div, div, a / b, "; linear 0", kFloat)                          \
  F(Maximum, maximum, Choose((a > b) | (a != a), a, b), "", kFloat) \
  F(Minimum, minimum, Choose((a < b) | (a != a), a, b), "", kFloat) \
  F(Heaviside, heaviside, Choose(a < b, 0.0f, Choose(a == b, 0.5f, 1.0f)), "", kFloat)

// y = f(a, b), a bool, of operands of any one type, with NumPy broadcasting: F(Name, op, f). No number is equal to a
// NaN, less or greater.
#define ONEFLOW_COMPARISONS(F)     \
  F(Equal, equal, a == b)          \
  F(NotEqual, not_equal, a != b)   \
  F(Less, less, a < b)             \
  F(LessEqual, less_equal, a <= b) \
  F(Greater, greater, a > b)       \
  F(GreaterEqual, greater_equal, a >= b)

// The same of bools.
#define ONEFLOW_LOGICAL_FUNCTIONS(F) \
  F(LogicalAnd, logical_and, a&& b)  \
  F(LogicalOr, logical_or, a || b)

// clang-format on
