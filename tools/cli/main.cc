// The `oneflow` command: parses arguments, calls one command, prints its error once. Exit codes: 0 done, 1 failed, 2
// wrong usage, 130 interrupted.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "tools/cli/commands.h"
#include "tools/cli/usage.h"

namespace oneflow {
namespace {

// In the order in which help lists them.
std::vector<Command> Commands() {
  std::vector<Command> all;
  for (const auto table :
       {RunCommands, JoinCommands, ManifestCommands, ConfigCommands, PlanCommands, TraceCommands, CheckpointCommands,
        WeightsCommands, SchedulerCommands, SecurityCommands, BenchCommands, ManualCommands, ServerCommands}) {
    for (Command& command : table()) all.push_back(std::move(command));
  }
  return all;
}

// Wrong usage in one line; help and the like are printed as CLI11 does.
int ReportUsage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::string what = error.what(), path = command->get_name();
  for (const CLI::App* above = command->get_parent(); above != nullptr; above = above->get_parent())
    path = absl::StrCat(above->get_name(), " ", path);
  if (command == &app && argc > 1 && argv[1][0] != '-') what = absl::StrCat("there is no command '", argv[1], "'");
  std::cerr << path << ": " << what << "; '" << path << " --help' shows what there is\n";
  return 2;
}

int Main(int argc, char** argv) {
  ParsedArguments arguments;
  RunFunction command;
  CLI::App app("a distributed deep-learning engine", "oneflow");
  app.require_subcommand(1);
  app.set_version_flag("--version", "oneflow " ONEFLOW_VERSION);
  AddCommands(Commands(), app, arguments, command);
  if (const char* const without = FindWithoutValue(argc, argv); without != nullptr) {
    std::cerr << "oneflow: '" << without << "' has no value; 'oneflow --help' shows what there is\n";
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportUsage(app, error, argc, argv);
  }
  return command();
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  setenv("GRPC_VERBOSITY", "NONE", 0);  // what gRPC would say of an error, our own message says
  google::InitGoogleLogging(argv[0]);
  return oneflow::Main(argc, argv);
}
