#include "kernels/elementwise_steps.h"

#include <map>
#include <optional>

#include "oneflow_core/elementwise.h"

namespace oneflow {
namespace {

using Kind = ElementwiseValue::Kind;

static_assert(kMostSteps >= kMostElementwiseReads && kMostStepInputs >= kMostElementwiseInputs &&
              kMostStepOutputs >= kMostElementwiseOutputs &&
              kMostSlots > kMostElementwiseInputs + kMostElementwiseOutputs + kMostElementwiseCalls);

// The step of an op; a sum of many operands is several.
std::optional<StepOp> StepOf(const std::string& op) {
#define OF_STEP(Name, op, ...) {#op, StepOp::k##Name},
  static const auto* const steps = new std::map<std::string, StepOp>{
      ONEFLOW_UNARY_FUNCTIONS(OF_STEP) ONEFLOW_GRADIENT_FUNCTIONS(OF_STEP) ONEFLOW_BINARY_FUNCTIONS(OF_STEP)  //
      {"cast", StepOp::kCast},
      {"scale", StepOp::kScale},
      {"add_scalar", StepOp::kAddScalar},
      {"neg", StepOp::kNeg},
      {"add_n", StepOp::kAdd}};
#undef OF_STEP
  const auto it = steps->find(op);
  return it == steps->end() ? std::nullopt : std::optional(it->second);
}

class StepMaker {
 public:
  StepMaker(const ElementwiseProgram& program, const KernelArgs& args)
      : places_(PlaceTemporaries(program)), dtypes_(kMostSlots) {
    made_->inputs = program.inputs;
    made_->outputs = program.outputs;
    made_->slots = program.inputs + program.outputs + places_.count + 1;  // the last is for sums that are not whole yet
    for (int i = 0; i < program.inputs; ++i) {
      const TensorArg& x = args.in[i];
      made_->operands[i] = {nullptr, x.dtype, x.rank == 0 && args.out[0].rank > 0};
      dtypes_[i] = x.dtype;
    }
    for (int i = 0; i < program.outputs; ++i) made_->operands[program.inputs + i] = {nullptr, args.out[i].dtype, false};
  }

  // False if there is no step for the call.
  bool Add(const ElementwiseCall& call) {
    const std::optional<StepOp> op = StepOf(call.op);
    if (!op.has_value()) return false;
    ElementwiseStep step{*op};
    step.out = Slot(call.out);
    step.a = Slot(call.in[0]);
    step.alpha = static_cast<float>(call.attrs.Double("alpha", 1));
    const DType dtype = ElementwiseDType(call, dtypes_[step.a]);
    const auto sum = static_cast<uint8_t>(made_->slots - 1);
    for (size_t i = 2; i < call.in.size(); ++i) {
      made_->steps[made_->count++] = {step.op, DType::kFloat32, sum, step.a, Slot(call.in[i - 1])};
      step.a = sum;
    }
    if (call.in.size() > 1) {
      step.b = Slot(call.in.back());
    } else if (call.op == "add_n") {
      step.op = StepOp::kCast;
    }
    step.dtype = dtypes_[step.out] = dtype;
    made_->steps[made_->count++] = step;
    return true;
  }

  std::shared_ptr<ElementwiseSteps> Made() const { return made_; }

 private:
  uint8_t Slot(const ElementwiseValue& value) const {
    const int first = value.kind == Kind::kInput    ? 0
                      : value.kind == Kind::kOutput ? made_->inputs
                                                    : made_->inputs + made_->outputs;
    return static_cast<uint8_t>(first + (value.kind == Kind::kTemporary ? places_.of[value.index] : value.index));
  }

  const TemporaryPlaces places_;
  std::vector<DType> dtypes_;  // by slot
  std::shared_ptr<ElementwiseSteps> made_ = std::make_shared<ElementwiseSteps>();
};

}  // namespace

std::shared_ptr<ElementwiseSteps> MakeElementwiseSteps(const KernelArgs& args) {
  const absl::StatusOr<ElementwiseProgram> program = ParseElementwise(args.attrs->String("made_of"));
  if (!program.ok()) return nullptr;
  StepMaker maker(*program, args);
  for (const ElementwiseCall& call : program->calls) {
    if (!maker.Add(call)) return nullptr;
  }
  return maker.Made();
}

}  // namespace oneflow
