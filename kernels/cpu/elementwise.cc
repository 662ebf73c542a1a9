// elementwise: a few elementwise ops in one pass over memory. A thread takes a run of elements, of which its first
// cache holds all slots, and makes the program's steps on it one after the other, in floats. Operands are read and
// written where they are, but for scalars, operands of a second narrow type, and an output in the memory of an input
// that later steps still read: these have a slot for the run, as values between steps do. A slot holds elements of its
// value's type, so that storing them rounds.
#include <algorithm>

#include "kernels/cpu/float_functions.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/elementwise_steps.h"

namespace oneflow::cpu {
namespace {

// Elements of a run: choosing a step's op takes little of what it computes, and a slot is 512 bytes.
constexpr int64_t kStepRun = 128;
static_assert(kStepRun % kLanes == 0);

// One thread's part of an act, of operands that are floats or of type N, if possible.
template <typename N>
class StepRunner {
 public:
  StepRunner(const KernelArgs& args, const ElementwiseSteps& program) : program_(program) {
    for (int i = 0; i < program.inputs; ++i) data_[i] = args.in[i].data;
    for (int i = 0; i < program.outputs; ++i) data_[program.inputs + i] = args.out[i].data;
    for (int slot = 0; slot < program.inputs + program.outputs; ++slot) {
      const ElementwiseOperand& operand = program.operands[slot];
      const bool readable = operand.dtype == DType::kFloat32 || operand.dtype == kNarrow;
      if (readable && !operand.is_scalar && !(slot >= program.inputs && IsReadBehindItsStep(slot))) {
        where_[slot] = operand.dtype == kNarrow ? Where::kNarrow : Where::kFloats;
      } else if (operand.is_scalar) {
        FillWithScalar(slot);
      }
    }
  }

  void Run(int64_t begin, int64_t end) {
    for (at_ = begin; at_ < end; at_ += kStepRun) {
      n_ = std::min(kStepRun, end - at_);
      for (int i = 0; i < program_.inputs; ++i) Read(i);
      for (int i = 0; i < program_.count; ++i) DoStep(program_.steps[i]);
      for (int i = 0; i < program_.outputs; ++i) Write(program_.inputs + i);
    }
  }

 private:
  static constexpr DType kNarrow = std::is_same_v<N, BFloat16> ? DType::kBFloat16 : DType::kFloat16;
  // In a slot of that type, or in an operand.
  enum class Where : uint8_t { kSlot, kNarrowSlot, kFloats, kNarrow };

  // Whether an output lies in the memory of an input that a step behind the output's own reads.
  bool IsReadBehindItsStep(int slot) const {
    bool made = false;
    for (int i = 0; i < program_.count; ++i) {
      const ElementwiseStep& step = program_.steps[i];
      for (const int read : {step.a, step.b}) {
        if (made && read < program_.inputs && data_[read] == data_[slot]) return true;
      }
      made = made || step.out == slot;
    }
    return false;
  }

  void FillWithScalar(int slot) {
    ByFloat(program_.operands[slot].dtype, [&]<typename T>() {
      const F32s x = Splat(ToFloat(*static_cast<const T*>(data_[slot])));
      for (int64_t i = 0; i < kStepRun; i += kLanes) Store(slots_[slot] + i, x);
    });
  }

  // From an operand that has a slot, and to one.
  void Read(int slot) {
    const ElementwiseOperand& operand = program_.operands[slot];
    if (where_[slot] != Where::kSlot || operand.is_scalar) return;
    ByFloat(operand.dtype, [&]<typename T>() { Copy(static_cast<const T*>(data_[slot]) + at_, slots_[slot]); });
  }
  void Write(int slot) {
    if (where_[slot] != Where::kSlot) return;
    ByFloat(program_.operands[slot].dtype,
            [&]<typename T>() { Copy(slots_[slot], static_cast<T*>(data_[slot]) + at_); });
  }
  template <typename From, typename To>
  void Copy(const From* from, To* to) const {
    const int64_t n = n_;  // stores may not change it
    VecLoop(n, [&](int64_t i, auto lanes) { Store(to + i, Load(from + i, lanes), lanes); });
  }

  // f(the run's elements of a slot), wherever they are. For each type there is one f, not one for each place.
  template <typename F>
  OF_INLINE void OfRun(int slot, F f) {
    const Where where = where_[slot];
    const bool in_slot = where == Where::kSlot || where == Where::kNarrowSlot;
    void* const data = in_slot ? slots_[slot] : data_[slot];
    const int64_t at = in_slot ? 0 : at_;
    if (where == Where::kNarrow || where == Where::kNarrowSlot) {
      f(static_cast<N*>(data) + at);
    } else {
      f(static_cast<float*>(data) + at);
    }
  }

  template <typename F>
  [[gnu::noinline]] void One(const ElementwiseStep& step, F f) {
    const int64_t n = n_;
    OfRun(step.a, [&](const auto* const a) OF_INLINED {
      OfRun(step.out, [&](auto* const out) OF_INLINED {
        VecLoop(n, [=](int64_t i, auto lanes) { Store(out + i, f(Load(a + i, lanes)), lanes); });
      });
    });
  }
  template <typename F>
  [[gnu::noinline]] void Two(const ElementwiseStep& step, F f) {
    const int64_t n = n_;
    OfRun(step.a, [&](const auto* const a) OF_INLINED {
      OfRun(step.b, [&](const auto* const b) OF_INLINED {
        OfRun(step.out, [&](auto* const out) OF_INLINED {
          VecLoop(n, [=](int64_t i, auto lanes) { Store(out + i, f(Load(a + i, lanes), Load(b + i, lanes)), lanes); });
        });
      });
    });
  }

  void Compute(const ElementwiseStep& step) {
    const float alpha = step.alpha;
    switch (step.op) {
      case StepOp::kCast:
        return One(step, [](F32s a) OF_INLINED { return a; });
      case StepOp::kScale:
        return One(step, [=](F32s a) OF_INLINED { return Splat(alpha) * a; });
      case StepOp::kAddScalar:
        return One(step, [=](F32s a) OF_INLINED { return a + Splat(alpha); });
      case StepOp::kNeg:
        return One(step, [](F32s a) OF_INLINED { return -a; });
#define OF_STEP(Name, ...) \
  case StepOp::k##Name:    \
    return One(step, [](F32s x) OF_INLINED { return Name##Of(x); });
        ONEFLOW_UNARY_FUNCTIONS(OF_STEP)
#undef OF_STEP
#define OF_STEP(Name, ...) \
  case StepOp::k##Name:    \
    return Two(step, [](F32s a, F32s b) OF_INLINED { return Name##Of(a, b); });
        ONEFLOW_GRADIENT_FUNCTIONS(OF_STEP)
        ONEFLOW_BINARY_FUNCTIONS(OF_STEP)
#undef OF_STEP
    }
  }

  void DoStep(const ElementwiseStep& step) {
    const bool is_temporary = step.out >= program_.inputs + program_.outputs;
    if (is_temporary) where_[step.out] = step.dtype == kNarrow ? Where::kNarrowSlot : Where::kSlot;
    Compute(step);
    if (step.dtype == DType::kFloat32 || where_[step.out] != Where::kSlot) return;
    ByFloat(step.dtype, [&]<typename T>() {
      T rounded[kStepRun];
      Copy(slots_[step.out], rounded);
      Copy(rounded, slots_[step.out]);
    });
  }

  const ElementwiseSteps& program_;
  void* data_[kMostStepInputs + kMostStepOutputs];  // of the operands
  Where where_[kMostSlots] = {};
  int64_t at_ = 0, n_ = 0;  // the run
  alignas(64) float slots_[kMostSlots][kStepRun];
};

std::shared_ptr<void> PrepareSteps(const KernelArgs& args) { return MakeElementwiseSteps(args); }

const char* Elementwise(const KernelArgs& args) {
  const auto& program = *static_cast<const ElementwiseSteps*>(args.state);
  const int operands = program.inputs + program.outputs;
  const bool has_f16 = std::any_of(program.operands, program.operands + operands,
                                   [](const ElementwiseOperand& x) { return x.dtype == DType::kFloat16; });
  const int64_t bytes = static_cast<int64_t>(sizeof(float)) * (operands + program.count);
  ParallelFor(args.out[0].count, Grain(bytes), [&](int64_t begin, int64_t end) {
    if (has_f16) {
      StepRunner<Float16>(args, program).Run(begin, end);
    } else {
      StepRunner<BFloat16>(args, program).Run(begin, end);
    }
  });
  return nullptr;
}

}  // namespace

KernelList ElementwiseKernels() { return {OF_FLOAT_KERNEL("elementwise", Elementwise, nullptr, PrepareSteps)}; }

}  // namespace oneflow::cpu
