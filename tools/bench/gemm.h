// gemm: products of the shapes of GPT-2 124M, a[m,k] times b[k,n], row by row. Ours as a step has them (weights of bf16
// lie in panels, where these are whole), beside oneDNN's with b as it is and in the library's own format, and those of
// PyTorch, where an interpreter is named; in f32 and bf16, of random normal numbers. Of every product the best of
// repetitions counts, taken in turn within a round.
//
//   m, n, k                       ours   oneDNN   packed  PyTorch    ours / best of the others
//   1024, 768, 768   f32         180.0    190.0    200.0    150.0    0.90
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "oneflow_core/dtype.h"
#include "tools/bench/bench_case.h"

namespace oneflow {

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// The best seconds of a product so far; 0: nobody measured it.
struct GemmRow {
  GemmShape shape;
  DType dtype = DType::kFloat32;
  double ours = 0, library = 0, packed = 0, pytorch = 0;

  // Of our rate to that of the fastest of the others; 0: there is none.
  double ratio() const;
};

// `pytorch`: its title, or why there is none; may be empty.
std::string GemmText(const std::vector<GemmRow>& rows, int cores, const std::string& pytorch);

BenchCaseMaker MakeGemmCase;

}  // namespace oneflow
