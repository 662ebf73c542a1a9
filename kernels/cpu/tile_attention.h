// Attention of bf16 and its gradient on tiles (tile.h), a head at a time. P and dS are rounded to bf16; scores, softmax
// and sums are floats.
//
//   forward    for each 32 queries:     S = Q K^T    P = 2^(S - max), sums    out = P V / sums
//   backward   for each 32 keys:        S^T = K Q^T    dP^T = V dout^T        P^T and dS^T, 32 keys x all queries
//                                       dV = P^T dout    dK = dS^T Q
//              for each 256 keys:       dQ^T += K^T dS^T
//
// The backward pass walks through keys, and its matrices are transposed. So lse and D lie along the lanes, no sum
// crosses lanes, P^T and dS^T are left operands as they are, and all sums over queries stay in tiles.
#pragma once

#include <cstddef>

#include "kernels/cpu/attention_head.h"
#include "kernels/kernel.h"

namespace oneflow::cpu {

// Whether heads of this shape use tiles: the processor has them, a head has a multiple of 32 columns, and there are
// queries and keys.
bool SuitsTiles(const AttentionShape& shape);

// Bytes of workspace for each thread.
size_t ForwardTileScratch(const AttentionShape& shape);
size_t BackwardTileScratch(const AttentionShape& shape);

// The ops, on operands of bf16. REQUIRES: SuitsTiles(), plain scores (kernels/attention_scores.h), and the workspace.
const char* AttentionOnTiles(const KernelArgs& args);
const char* AttentionGradOnTiles(const KernelArgs& args);

}  // namespace oneflow::cpu
