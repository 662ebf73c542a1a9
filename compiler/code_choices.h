// Codes whose numbers (ranks, shares of elements) are chosen while a job trains, each matrix its own (L-GreCo; Markov,
// Alim, Frantar and Alistarh, MLSys 2024).
//
//   train             codes of as many as "w/compress/count_to_64" says
//   train/window      the same, and adds up addends in "w/compress/window"      the last steps before a choice
//   compress/choose   windows ──► mean of all ranks ──► errors of all candidates ──► choose_codes ──► counts
//
// The counts are variables that all ranks have alike, so all ranks use a new one from the same step on. Room is for the
// largest candidate; what is used of it travels. The choice itself is made on one rank (oneflow_core/code_choice.h).
// Errors are those of the gradient's mean over ranks and steps, without what codes have left out before. They may be
// taken relative to that gradient: under Adam, which divides by its size, an error counts by its share of it.
//
// The budget is what the usual codes would leave out. With Accordion (Agarwal, Wang, Lee, Venkataraman and
// Papailiopoulos, MLSys 2021) usual are the largest codes while a gradient's norm changes fast from choice to choice,
// and the smallest ones while it does not.
#pragma once

#include <string>

#include "compiler/boxed_graph.h"
#include "compiler/options.h"
#include "compiler/passes/edges/coding.h"

namespace oneflow {

inline constexpr char kChoicePlan[] = "compress/choose";
// State of a matrix, behind "w/compress/".
inline constexpr char kCodeWindow[] = "window", kCodeCount[] = "count_to_", kCodeNorm[] = "window_norm";

// The count of a matrix, i32[], in whose scope the editor is. It is called after the largest candidate: a job that goes
// on with others begins with its usual count, since the saved one may be more than there is room for.
Tensor CountVariable(GraphEditor& editor, const CodeCounts& counts);

// The plan that chooses. A plan of the steps of a window has been compiled: `variables` has where its windows lie.
// `trained` is the graph as the user wrote it. What is fetched is called like the matrices. InvalidArgument if there is
// no matrix that travels as a code.
absl::StatusOr<Graph> ChoiceGraph(const Graph& trained, const CompileOptions& options, const OpRegistry& ops,
                                  const VariableDists& variables);

}  // namespace oneflow
