// The part of dlrm.cc that no other model has, for programs in C++.
#pragma once

#include "oneflow_core/builder.h"

namespace oneflow {

// dense [n,w] and, behind it, the products of all pairs of it and the embeddings [n,fields,w]: of x, e1, e2, ... those
// of e1 x, e2 x, e2 e1, ...: [n, w + fields (fields + 1) / 2].
Tensor DlrmInteraction(const Tensor& dense, const Tensor& embedded);

}  // namespace oneflow
