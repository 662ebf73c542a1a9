// The floating type in which an op computes, and the reason: for jobs, or parts of models, that ask for a narrow one.
#pragma once

#include <string>

#include "compiler/explain/facts.h"

namespace oneflow {

// "bf16, as the job asks; sums are f32", "f32 in any case", "bf16, as what it reads", ...; empty for nodes without
// floating operands, and for all nodes of a job that computes in f32.
std::string PrecisionText(const JobFacts& job, const Graph& graph, const Node& node);

// "48 products and 120 ops that follow them in bf16, 31 in f32, 22 casts"; empty if nothing is narrow.
std::string PrecisionSummary(const JobFacts& job, const Graph& graph);

}  // namespace oneflow
