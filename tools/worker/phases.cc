#include "tools/worker/phases.h"

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

absl::Status RunPhase(Engine& engine, const pb::Phase& phase) {
  switch (phase.kind_case()) {
    case pb::Phase::kRun:
      return engine.Run(phase.run().plan(), phase.run().first_step(), phase.run().steps());
    case pb::Phase::kSave:
      return Annotate(engine.SaveWeights(phase.save().path(), phase.save().suffix()), "saving weights");
    case pb::Phase::kTrace:
      return Annotate(engine.SaveTrace(phase.trace().path()), "saving the trace");
    case pb::Phase::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("it says neither what to run nor what to save");
}

}  // namespace

absl::Status RunPhases(Engine& engine, const pb::JobSpec& spec, const std::function<void(int)>& on_done) {
  if (!spec.weights().empty()) {
    OF_RETURN_IF_ERROR_AT(engine.LoadWeights(spec.weights()), "loading weights");
  }
  for (int i = 0; i < spec.phases_size(); ++i) {
    OF_RETURN_IF_ERROR_AT(RunPhase(engine, spec.phases(i)), absl::StrCat("phase ", i));
    on_done(i);
  }
  return absl::OkStatus();
}

}  // namespace oneflow
