// What the op `elementwise` computes: a few elementwise ops as one, of which values that only they read are never in
// memory but for a block of elements. Its attribute `made_of` says it, as a text that people read in dumps too:
//
//   t0 = sigmoid(x0); t1 = mul(x0, t0); y0 = mul(t1, x1)
//
// x<i> is input i, y<i> output i, t<i> a value that nobody else has. A call is an op whose definition says that it is
// elementwise, with its attributes as attr_text.h writes them; it gives one value, which later calls may read, outputs
// included. Each value has the elements that the op's outputs have; an input may also be a scalar, which all share.
// Each call rounds what it gives to its element type, so that a program gives what its calls give one by one, to the
// bit: which ops become one depends on the layout, and no number may.
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

// Where temporaries lie while calls are made in their order: in as few places as can be, of which none holds two that
// are both still read, nor what a call reads beside what it gives.
struct TemporaryPlaces {
  std::vector<int> of;  // by temporary
  int count = 0;
};
TemporaryPlaces PlaceTemporaries(const ElementwiseProgram& program);

}  // namespace oneflow
