// What the tests know of the ops, family by family: a file of oneflow_core/ops has one of the same name in
// test/support/ops. All tests that go through the ops go through these: type inference, signatures and their law,
// gradients against differences, kernels against references, and the comparison with PyTorch. A new op adds its facts
// there and is tested everywhere.
#pragma once

#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/builder.h"
#include "oneflow_core/shape.h"
#include "test/support/reference.h"

namespace oneflow::testing {

// An op with attributes and operands; what must come out is what Reference() says.
struct OpCase {
  std::string op;
  std::string what;  // what is special about it
  AttrMap attrs;
  std::vector<RefTensor> inputs;
  double tolerance = 2e-6;  // 0: exactly
  RefContext context = {};
  int in_place = -1;  // run again with output 0 in this input's memory
};

// Random tensors: the same for the same seed and stream.
class Random {
 public:
  explicit Random(uint64_t seed, const std::string& stream = "");
  RefTensor Uniform(std::vector<int64_t> dims, double low = -2, double high = 2);
  // Integers in [0, below).
  RefTensor Integers(std::vector<int64_t> dims, int64_t below, DType dtype = DType::kInt32);
  // Values that every dtype holds exactly.
  RefTensor Small(std::vector<int64_t> dims, DType dtype);

 private:
  std::mt19937_64 engine_;
};

// One call of a reference: operands that the op overwrites are overwritten in `in`.
struct RefCall {
  const AttrMap& attrs;
  std::vector<RefTensor>& in;
  const RefContext& context;
};
using Tensors = std::vector<RefTensor>;
using ReferenceFn = std::function<Tensors(RefCall&)>;

// Makes operands of a function of functional.h.
struct Operands {
  Tensor F32(std::initializer_list<int64_t> sizes) const;
  Tensor I32(std::initializer_list<int64_t> sizes) const;
  GraphBuilder& b;
};

// A function of functional.h: it adds `op`, and its result has this type.
struct DslCall {
  std::function<Tensor(Operands)> make;
  std::string op, type;
};

// Signatures, one per axis of a mesh of these sizes, that look right and do not hold.
struct WrongSignature {
  std::string op;
  std::vector<int> sizes;
  std::vector<std::string> per_axis;
};

struct OpFacts {
  // Every op that computes, in double precision and as plainly as possible.
  std::vector<std::pair<std::string, ReferenceFn>> reference;
  // Calls that type inference takes and calls that it refuses (test/oneflow_core/ops/infer_cases.h says how they are
  // written).
  const char* types = "";
  // Signatures beside OneFlow's (test/sbp/rules/oneflow_signatures_test.cc says how they are written).
  const char* signatures = "";
  std::vector<WrongSignature> wrong_signatures;
  // Small enough to try all layouts, of sizes that few meshes divide. Every test takes these.
  void (*examples)(Random&, std::vector<OpCase>&) = nullptr;
  // What kernels may stumble over: empty, large, in several threads, of all dtypes, in place.
  void (*edges)(Random&, std::vector<OpCase>&) = nullptr;
  // Where an op has slopes to choose from, and where formulas overflow, cancel or divide by zero: compared with
  // PyTorch.
  void (*extremes)(Random&, std::vector<OpCase>&) = nullptr;
  std::vector<DslCall> dsl;
  // {op, why}: the ops without a gradient.
  std::vector<std::pair<std::string, std::string>> without_gradient;
  // Ops that lay data out as the CPU reads it: no other device has kernels for them, nor has PyTorch the ops.
  std::vector<std::string> of_cpu_alone;
  // The compiler makes these of others, as which they are compared with PyTorch.
  bool are_fused = false;
};

// By family, as StandardOps() lists them.
const std::vector<OpFacts>& AllOpFacts();

// The ops that are of the CPU alone.
const std::set<std::string>& CpuOps();
// The ops that the compiler makes of others.
const std::set<std::string>& OpsMadeOfOthers();

// All examples; all examples and edges; all extremes. The same for the same seed; operands are rounded to what their
// dtypes hold.
std::vector<OpCase> Examples(uint64_t seed);
std::vector<OpCase> ExamplesAndEdges(uint64_t seed);
std::vector<OpCase> Extremes(uint64_t seed);

// The lines of a table of facts, without empty ones; a line that begins with a space continues the one before.
std::vector<std::string> FactLines(absl::string_view table);

TensorType TypeOf(const RefTensor& x);
std::vector<TensorType> TypesOf(absl::Span<const RefTensor> tensors);
// "matmul(f32[7,6] f32[6,9]), transposed".
std::string ToString(const OpCase& c);

}  // namespace oneflow::testing
