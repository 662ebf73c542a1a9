// The product and loss of a model's head (matmul_cross_entropy.h) on tiles, of operands of bf16. No logit reaches
// memory, and each is computed and exponentiated once:
//
//   1  for panels of 32 classes, all rows:   z = x w,   e = 2^(z / ln 2 - r),  sums of e      e is kept, as bf16
//      r is a guess of a row's greatest logit: of the first panel of each of some parts of the classes
//   2  for each row:   lse, the loss, and what makes p dloss of e for each part
//   3  for each 1,024 classes:   dz = e factor - one-hot dloss      dw = x^T dz       dx += dz w^T
//
// If some logits of a row lie so far above the guess that e or its factor would lose precision, the row's part is
// computed again with its greatest logit. dz at the label is computed in float from the logit itself: when a model is
// sure, the rounding of e would exceed 1 - p.
//
// Results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace oneflow::cpu {

// The operands of one of the head's ops.
struct HeadCall {
  const TensorArg &x, &w;         // w[k,n], w[n,k] if transposed
  const TensorArg* wt = nullptr;  // of weights in panels: [n,k]; null: dx reads w
  const TensorArg& labels;
  const TensorArg* dloss = nullptr;  // null: no gradients
  float* loss;
  const TensorArg *dx = nullptr, *dw = nullptr;
  bool packed, transposed;
  bool turned;  // dw is [n,k]
  int64_t rows, k, n;
  int threads;  // the most that a run may use
};

// Whether a head of bf16 uses tiles: the processor has them, and k is a multiple of 32.
bool SuitsTiles(const HeadCall& head);
size_t TileHeadWorkspace(const HeadCall& head);
// REQUIRES: SuitsTiles(), labels that are classes, and the workspace.
void RunTileHead(const HeadCall& head, void* workspace);

}  // namespace oneflow::cpu
