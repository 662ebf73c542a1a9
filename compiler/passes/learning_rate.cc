#include "compiler/passes/learning_rate.h"

#include <string>
#include <utility>

namespace oneflow {
namespace {

// The first output of the node of that name; invalid: there is none.
Tensor FindOutput(GraphEditor& editor, absl::string_view name) {
  const NodeId id = editor.graph().FindNode(name);
  return id < 0 ? Tensor() : Tensor(&editor, editor.graph().node(id).outputs[0]);
}

}  // namespace

Tensor StepsTaken(GraphEditor& editor) {
  const Tensor made = FindOutput(editor, kStepsTaken);
  if (made.valid()) return made;
  return editor.Variable(kStepsTaken, {DType::kInt64, Shape()}, "zeros", {}, /*trainable=*/false);
}

Tensor LearningRate(GraphEditor& editor, const ScheduleOptions& schedule) {
  const Tensor made = FindOutput(editor, kLearningRate);
  if (made.valid()) return made;
  AttrMap fields = schedule.fields;
  fields.Set("learning_rate", schedule.learning_rate);
  fields.Set("kind", schedule.kind);
  return editor.Op1("lr_schedule", {StepsTaken(editor)}, std::move(fields), std::source_location::current(),
                    kLearningRate);
}

}  // namespace oneflow
