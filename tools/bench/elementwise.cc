#include "tools/bench/elementwise.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/elementwise.h"
#include "tools/bench/timed_ways.h"

namespace oneflow {
namespace {

constexpr int64_t kRows = 4096, kColumns = 3072;
constexpr double kSeconds = 0.5;  // of all ways of a row in a round

constexpr struct {
  const char* name;
  const char* program;
} kPrograms[] = {
    {"a gate", "t0 = sigmoid(x0); t1 = mul(x0, t0); y0 = mul(t1, x1)"},
    // x0 is what comes back, x1 what was gated, x2 the gate before its sigmoid, x3 behind it.
    {"its gradient",
     "t0 = mul(x0, x1); t1 = mul(t0, x3); t2 = mul(t0, x2); t3 = neg(x3); t4 = add_scalar(t3) {alpha=1.0}; "
     "t5 = mul(x3, t4); t6 = mul(t2, t5); y0 = add(t1, t6)"},
    {"a scaled margin", "t0 = sub(x0, x1); y0 = scale(t0) {alpha=24.0}"},
    {"a sum of four", "t0 = add(x0, x1); t1 = add(t0, x2); y0 = add(t1, x3)"},
};
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

class ElementwiseCase : public BenchCase {
 public:
  explicit ElementwiseCase(const BenchContext& context) : context_(context) {
    for (const auto& [name, program] : kPrograms) {
      for (const DType dtype : kTypes) rows_.push_back({.name = name, .program = program, .dtype = dtype});
    }
  }

  absl::StatusOr<std::string> RunRound() override {
    for (ElementwiseRow& row : rows_) OF_RETURN_IF_ERROR_AT(RunRow(row), row.name);
    return absl::StrFormat("%9.2f times as fast as one by one: %s", rows_[0].apart / rows_[0].whole, rows_[0].name);
  }

  std::string Text() const override { return ElementwiseText(rows_, context_.cores); }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const ElementwiseRow& row : rows_) {
      json.push_back({{"name", row.name},
                      {"dtype", Name(row.dtype)},
                      {"seconds", row.whole},
                      {"apart_seconds", row.apart},
                      {"floor_seconds", row.floor()}});
    }
    return json;
  }

 private:
  absl::Status RunRow(ElementwiseRow& row) const {
    const std::unique_ptr<DeviceContext> device = MakeCpuDevice(context_.cores);
    device->BindThread();
    OF_ASSIGN_OR_RETURN(const ElementwiseProgram program, ParseElementwise(row.program));
    row.operands = program.inputs + program.outputs;
    std::map<char, std::vector<KernelOperand>> values;
    const TemporaryPlaces places = PlaceTemporaries(program);
    for (const auto& [kind, count] : {std::pair{'x', program.inputs}, {'y', program.outputs}, {'t', places.count}}) {
      for (int i = 0; i < count; ++i) {
        values[kind].push_back({NormalNumbers(*device, row.dtype, kRows * kColumns), row.dtype, {kRows, kColumns}});
        if (values[kind].back().data == nullptr) return absl::ResourceExhaustedError("no memory");
      }
    }
    const AttrMap attrs = {{"made_of", row.program}};
    OF_ASSIGN_OR_RETURN(TimedWay whole, KernelWay(*device, "elementwise", attrs, values['x'], values['y']));
    OF_ASSIGN_OR_RETURN(TimedWay addition,
                        KernelWay(*device, "add", {}, {values['x'][0], values['x'][1]}, values['y']));
    std::vector<TimedWay> calls;
    for (const ElementwiseCall& call : program.calls) {
      const auto operand = [&](const ElementwiseValue& value) {
        const bool temporary = value.kind == ElementwiseValue::Kind::kTemporary;
        return values[static_cast<char>(value.kind)][temporary ? places.of[value.index] : value.index];
      };
      std::vector<KernelOperand> in;
      for (const ElementwiseValue& value : call.in) in.push_back(operand(value));
      OF_ASSIGN_OR_RETURN(calls.emplace_back(), KernelWay(*device, call.op, call.attrs, in, {operand(call.out)}));
    }
    const TimedWay apart = [&calls]() -> const char* {
      for (const TimedWay& call : calls) {
        if (const char* error = call()) return error;
      }
      return nullptr;
    };
    return TimeInTurn({{whole, &row.whole}, {apart, &row.apart}, {addition, &row.addition}}, kSeconds, context_.stop);
  }

  const BenchContext& context_;
  std::vector<ElementwiseRow> rows_;
};

}  // namespace

std::string ElementwiseText(const std::vector<ElementwiseRow>& rows, int cores) {
  std::string text =
      absl::StrFormat("elementwise: ops on %d x %d, ms on %d cores; best of repetitions\n", kRows, kColumns, cores);
  absl::StrAppendFormat(&text, "  %-22s %9s %11s %9s %9s %16s\n", "", "one op", "one by one", "floor", "faster",
                        "one op / floor");
  for (const ElementwiseRow& row : rows) {
    absl::StrAppendFormat(&text, "  %-16s %-5s %9.2f %11.2f %9.2f %9.2f %16.2f\n", row.name, Name(row.dtype),
                          1e3 * row.whole, 1e3 * row.apart, 1e3 * row.floor(), row.apart / row.whole,
                          row.whole / row.floor());
  }
  return text;
}

std::unique_ptr<BenchCase> MakeElementwiseCase(const BenchContext& context) {
  return std::make_unique<ElementwiseCase>(context);
}

}  // namespace oneflow
