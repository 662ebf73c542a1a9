// A plan with every rank spelled out, and the wait graph of that: what the compiler's proof on classes of ranks is held
// against.
#pragma once

#include <vector>

#include "compiler/options.h"
#include "compiler/plan/liveness.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

namespace pb {
class PlanSet;
}

namespace testing {

// The program of all processes together. A failure of the test that runs, and nothing in it, if the plan is malformed.
pb::Program SpelledOut(const pb::PlanSet& set);

// Compile() (compiler/lower/compile.h), spelled out.
absl::StatusOr<pb::Program> CompileSpelledOut(const Program& program, const CompileOptions& options,
                                              const OpRegistry& ops);

// How many consecutive acts of `actor` use one slot of register `id`; 0 if no port names it.
int ActsPerSlot(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id);

// InvalidArgument if actors and registers do not name each other, or an order leaves out an actor with collectives.
absl::StatusOr<WaitGraph> WaitGraphOf(const pb::Plan& plan);

// CheckLive (compiler/plan/liveness.h) of that.
absl::Status CheckSpelledOutLive(const pb::Plan& plan);

}  // namespace testing
}  // namespace oneflow
