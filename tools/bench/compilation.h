// What compiling takes, without running anything:
//
//   select-sbp   the layouts of a large training graph on three mesh axes, of which annotations name only two: what the
//                compiler's search has to do where people do not tell it
//   compile      a job, from its config to the serialised plan
#pragma once

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"

namespace oneflow {

struct CompilationRound {
  double cpu_seconds = 0;  // of this process, all threads
  double wall_seconds = 0;
};

// Of both kinds what they did, the same in every round; the other kind's figures are 0.
struct CompilationWork {
  int nodes =
      0;  // select-sbp: of the graph that is laid out; compile: of the program's graphs as their authors wrote them
  // select-sbp
  int prices = 0;                // boxings that were priced
  bool exact = false;            // no layouts have a smaller prediction
  double predicted_seconds = 0;  // of a step
  double lower_bound = 0;        // no layouts have a smaller prediction than this
  // compile
  int ranks = 0;
  int actors = 0;
  double plan_bytes = 0;
};

struct Compilation {
  CompilationRound round;
  CompilationWork work;
};

// Lays the training step of a GPT of so many layers (40: more than 5,000 nodes) out on dp2 x tp2 x sp2. Making the
// graph is not measured.
absl::StatusOr<Compilation> MeasureSelection(int64_t layers, const OpRegistry& ops);

// Compiles a job that trains. Errors as of MakeJob and CompileJob (tools/job/job.h).
absl::StatusOr<Compilation> MeasureCompile(const SourcedConfig& config, const OpRegistry& ops);

}  // namespace oneflow
