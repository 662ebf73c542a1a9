// The graphs of a job: those of its program, and those that the compiler writes beside what is trained.
#pragma once

#include "absl/functional/function_ref.h"
#include "compiler/boxed_graph.h"
#include "compiler/options.h"

namespace oneflow {

// Calls `fn` for the graphs of a job in the order in which they are compiled: those of the program, and
//   behind the first that is trained      the exchanges of ranks that train by themselves (compiler/local_training.h)
//   behind that of a window               the choice of codes (compiler/code_choices.h)
// `fn` adds to `variables` where the graph's lie, as RunPasses does. The first error of `fn`, or of writing a graph;
// InvalidArgument if codes are to be chosen, and no matrix travels as one.
absl::Status ForEachGraph(const Program& program, const CompileOptions& options, const OpRegistry& ops,
                          const VariableDists& variables, absl::FunctionRef<absl::Status(const Graph&)> fn);

}  // namespace oneflow
