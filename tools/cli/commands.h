// The commands of `oneflow`: a table from each file of them, in the order in which help lists them.
#pragma once

#include <vector>

#include "tools/cli/command.h"

namespace oneflow {

std::vector<Command> RunCommands();         // run, generate
std::vector<Command> JoinCommands();        // join
std::vector<Command> ManifestCommands();    // manifest
std::vector<Command> ConfigCommands();      // config, models
std::vector<Command> PlanCommands();        // compile, plan
std::vector<Command> TraceCommands();       // trace
std::vector<Command> CheckpointCommands();  // checkpoint
std::vector<Command> WeightsCommands();     // weights
std::vector<Command> SchedulerCommands();   // submit, jobs, watch, logs, cancel, retry, nodes, drain
std::vector<Command> SecurityCommands();    // certs, token
std::vector<Command> BenchCommands();       // bench
std::vector<Command> ManualCommands();      // man, completion
std::vector<Command> ServerCommands();      // scheduler, daemon, worker

// `plan simulate`, for the table of PlanCommands().
RunFunction DeclareSimulate(CLI::App& app, ParsedArguments& arguments);

}  // namespace oneflow
