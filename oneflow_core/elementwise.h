// The program of the op `elementwise`: a few elementwise ops in one pass over memory. Values between them exist only
// for a block of elements at a time. The attribute `made_of` holds the program as text:
//
//   t0 = sigmoid(x0); t1 = mul(x0, t0); y0 = mul(t1, x1)
//
// x<i> is input i, y<i> output i, t<i> a temporary. A call names an elementwise op (OpDef::is_elementwise) with its
// attributes as attr_text.h writes them. It gives one value; later calls may read it, even if it is an output. All
// values have the shape of the outputs, except inputs that are scalars. Each call rounds its result to its element
// type, so a program gives the same bits as its calls one by one. It must: the layout decides which ops are fused, and
// no number may depend on the layout.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Of one program: a kernel's parameters have to hold it. Reads are the operands of all calls.
inline constexpr int kMostElementwiseCalls = 16, kMostElementwiseReads = 32, kMostElementwiseInputs = 8,
                     kMostElementwiseOutputs = 4;

struct ElementwiseValue {
  enum class Kind : char { kInput = 'x', kOutput = 'y', kTemporary = 't' };
  Kind kind = Kind::kInput;
  int index = 0;

  bool operator==(const ElementwiseValue& o) const { return kind == o.kind && index == o.index; }
};

struct ElementwiseCall {
  std::string op;
  AttrMap attrs;
  std::vector<ElementwiseValue> in;
  ElementwiseValue out;
};

struct ElementwiseProgram {
  std::vector<ElementwiseCall> calls;
  int inputs = 0, outputs = 0, temporaries = 0;
};

std::string ToString(const ElementwiseProgram& program);

// Inverse of ToString(). The text need not be trusted: InvalidArgument, naming the call, if it is malformed, if a value
// is read before it is made or made twice, if an input, an output or a temporary with a smaller number than another one
// is neither read nor made, or if there are more of anything than a program may have. Ops and types are not looked at:
// that is for the op's definition.
absl::StatusOr<ElementwiseProgram> ParseElementwise(absl::string_view text);

// The element type that a call gives, from that of its first operand.
DType ElementwiseDType(const ElementwiseCall& call, DType first);

// Places for temporaries while calls run in order: as few as possible. Two temporaries share a place only if the first
// is no longer read; a call never writes a place that it reads.
struct TemporaryPlaces {
  std::vector<int> of;  // by temporary
  int count = 0;
};
TemporaryPlaces PlaceTemporaries(const ElementwiseProgram& program);

}  // namespace oneflow
