// Initial values of variables, as a function of the logical element index alone: the tensor is the same for every
// layout.
//
//   zeros   ones   constant(v)   list(v0,v1,...)
//   normal(std): Box-Muller on two uniforms   uniform(bound): in [-bound, bound)
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct Init {
  enum class Kind { kConstant, kList, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double value = 0;          // the constant, the standard deviation or the bound
  std::vector<double> list;  // kList: one value per element
};

// InvalidArgument if `text` is none of the above, a number cannot be read or is not finite, or a list does not have
// `count` values.
absl::StatusOr<Init> ParseInit(absl::string_view text, int64_t count);

// The key of a variable's random numbers: the job's seed and its name.
uint64_t InitKey(uint64_t seed, absl::string_view variable);

// Writes the values of logical elements [first, first + count) to elements [at, at + count) of host memory of that
// type. Random values are made in f32 and rounded.
void FillInitial(const Init& init, uint64_t key, int64_t first, int64_t count, DType dtype, void* out, int64_t at);

}  // namespace oneflow
