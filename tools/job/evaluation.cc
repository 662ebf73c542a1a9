#include "tools/job/evaluation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/data/source.h"

namespace oneflow {
namespace {

Program::iterator FindEvaluation(Program& program) {
  return std::find_if(program.begin(), program.end(), [](const Graph& graph) { return graph.name() == kEvaluate; });
}

}  // namespace

absl::StatusOr<EvaluationCut> CutEvaluation(const pb::JobConfig& config, const Program& program) {
  EvaluationCut cut{.batches = std::max<int64_t>(config.evaluate().batches(), 1)};
  for (const Graph& graph : program) {
    for (NodeId id = 0; id < graph.num_nodes() && graph.name() == kEvaluate; ++id) {
      const Node& node = graph.node(id);
      if (node.op != "read_data") continue;
      OF_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, OpenSource(node.attrs));
      const int64_t samples = source->num_samples();
      cut.batch = graph.value(node.outputs[0]).type.shape[0];
      const int64_t whole = samples / cut.batch, asked = config.evaluate().batches();
      const bool all = asked == 0 || asked > whole;
      cut.batches = all ? whole : asked;
      cut.rest = all ? samples % cut.batch : 0;
      return cut;
    }
  }
  return cut;
}

void AddRest(EvaluationCut& cut, Program smaller, Program& program) {
  const auto rest = FindEvaluation(smaller), whole = FindEvaluation(program);
  if (rest == smaller.end() || whole == program.end()) return;
  if (cut.batches == 0) {
    *whole = std::move(*rest);
    cut = {.batches = 1, .batch = cut.rest};
  } else {
    rest->set_name(kEvaluateRest);
    program.insert(whole + 1, std::move(*rest));
  }
}

absl::Status LeaveRestOut(EvaluationCut& cut, std::vector<std::string>& remarks) {
  if (cut.rest == 0) return absl::OkStatus();
  if (cut.batches == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of its graph has ", cut.batch, " samples, but the validation data only ", cut.rest));
  }
  remarks.push_back(absl::StrCat("evaluate: its graph has batches of ", cut.batch, " samples: the last ", cut.rest,
                                 " of ", cut.batches * cut.batch + cut.rest, " are left out"));
  cut.rest = 0;
  return absl::OkStatus();
}

pb::RunPlan EvaluationRun(const EvaluationCut& cut) {
  pb::RunPlan run;
  run.set_plan(kEvaluate);
  run.set_steps(cut.batches);
  if (cut.rest == 0) return run;
  run.set_rest_plan(kEvaluateRest);
  run.set_rest_row(cut.batches * cut.batch);
  run.set_rest_weight(static_cast<double>(cut.rest) / static_cast<double>(cut.batch));
  return run;
}

}  // namespace oneflow
