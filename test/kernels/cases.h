// The table of conformance cases: one list for the kernels of every device kind. A case is an op with attributes and inputs; what must
// come out is what Reference() says.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "oneflow_core/attr.h"
#include "test/support/reference.h"

namespace oneflow::testing {

struct Case {
  std::string op;
  std::string what;  // what is special about it
  AttrMap attrs;
  std::vector<RefTensor> inputs;
  double tolerance = 2e-6;  // absolute, and relative to the reference
  RefContext context = {};
  int in_place = -1;  // run again with output 0 in this input's memory
};

// Random tensors of one seed.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  RefTensor Uniform(std::vector<int64_t> dims, double low = -2, double high = 2);
  // Integers in [0, below).
  RefTensor Integers(std::vector<int64_t> dims, int64_t below, DType dtype = DType::kInt32);
  // Values that every dtype holds exactly.
  RefTensor Small(std::vector<int64_t> dims, DType dtype);

 private:
  std::mt19937_64 engine_;
};

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                                       DType::kInt64,   DType::kUInt8,    DType::kBool};

std::vector<Case> ConformanceCases(uint64_t seed);

}  // namespace oneflow::testing
