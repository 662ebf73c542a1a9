#include "compiler/job_graphs.h"

#include "compiler/code_choices.h"
#include "compiler/local_training.h"

namespace oneflow {

absl::Status ForEachGraph(const Program& program, const CompileOptions& options, const OpRegistry& ops,
                          const VariableDists& variables, absl::FunctionRef<absl::Status(const Graph&)> fn) {
  bool exchanges = options.local_training.has_value();
  for (const Graph& graph : program) {
    OF_RETURN_IF_ERROR(fn(graph));
    if (exchanges && graph.is_trained()) {
      exchanges = false;
      OF_ASSIGN_OR_RETURN(const Program between, ExchangeGraphs(graph, options, ops, variables));
      for (const Graph& exchange : between) OF_RETURN_IF_ERROR(fn(exchange));
    }
    if (options.compress.has_value() && options.compress->choice.has_value() &&
        options.compress->windows.count(graph.name()) > 0) {
      OF_ASSIGN_OR_RETURN(const Graph choice, ChoiceGraph(graph, options, ops, variables));
      OF_RETURN_IF_ERROR(fn(choice));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
