// From a job config to everything a cluster needs: the program (logical graphs), the compiler's options, and what every
// worker does in which order.
#pragma once

#include <string>
#include <vector>

#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "proto/control.pb.h"
#include "tools/job/config.h"

namespace oneflow {

namespace pb {
class PlanSet;
}

// On fewer devices, for attempts after the first.
struct FallbackJob {
  CompileOptions options;
  pb::Fallback layout;  // without the plan, which CompileJob adds
  std::string field;    // that asks for it, with its place
  bool may_fail;        // what the job itself names has to compile
};

struct Job {
  SourcedConfig config;
  Program program;
  CompileOptions options;
  std::vector<FallbackJob> fallbacks;
  // Everything but `plan`, `plan_hash`, `graphs` and `fallbacks`, which CompileJob fills in.
  pb::JobSpec spec;
  std::vector<std::string> remarks;   // what the user should know of how the config was understood
  std::vector<std::string> warnings;  // what the compiler has to tell the user, filled in by CompileJob
};

// Which parts of the config to build.
enum class JobKind {
  kTrain,     // train, evaluate as asked, then generate if asked
  kGenerate,  // only generate, from saved weights
  kSealed,    // as kTrain, to be looked at where it does not run: no file that it names is opened
};

// Validates the config, builds the graphs of the model it names (or reads them from model.graph), and lists the phases.
// Paths become absolute, so that every process finds the same files. InvalidArgument naming config field and line, or
// the malformed graph or data file; NotFound for missing files; FailedPrecondition if a sealed job follows from the
// contents of a file.
absl::StatusOr<Job> MakeJob(SourcedConfig config, JobKind kind, const OpRegistry& ops);

// A job around a program that a user's own code built: as MakeJob, with `config.model` ignored and the given graphs
// instead. A graph named "train" is trained for train.steps steps; a graph "evaluate" is run as `evaluate` says.
absl::StatusOr<Job> MakeJob(SourcedConfig config, Program program);

// Compiles the program and completes the spec; the job's own plan. Errors as of Compile() (compiler/lower/compile.h).
absl::StatusOr<pb::PlanSet> CompileJob(Job& job, const OpRegistry& ops);

// The same for those who only need the spec, or the plan spelled out for all processes together.
absl::Status CompleteSpec(Job& job, const OpRegistry& ops);
absl::StatusOr<pb::Program> CompileToProgram(Job& job, const OpRegistry& ops);

}  // namespace oneflow
