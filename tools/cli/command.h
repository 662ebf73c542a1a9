// The command line as a table: what each command is called, what it is for, how its flags are declared, what it runs.
//
//   main ──► tables (commands.h) ──► AddCommands ──► CLI11 parses ──► the function of the command that was named
//
// A file of commands has their arguments, their flags, their code, and at its end its table.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/cli/arguments.h"

namespace oneflow {

// What the command line is parsed into. The parser keeps references to it, so it outlives the parser.
class ParsedArguments {
 public:
  // Arguments of a command, at their defaults.
  template <typename T>
  T& New(T defaults = {}) {
    auto kept = std::make_shared<T>(std::move(defaults));
    kept_.push_back(kept);
    return *kept;
  }

  // Of all commands that ask a scheduler: in `jobs --scheduler ADDRESS describe 3` the address is given to another
  // command than the one that asks.
  SchedulerArguments& scheduler() { return scheduler_; }

 private:
  std::deque<std::shared_ptr<void>> kept_;  // of any type
  SchedulerArguments scheduler_ = DefaultScheduler();
};

using RunFunction = std::function<int()>;  // returns the exit code

struct Command {
  const char* name;
  const char* help;
  // Declares the flags of the command, and returns what runs it once they are parsed. Null: of a group.
  RunFunction (*declare)(CLI::App& app, ParsedArguments& arguments);
  std::vector<Command> commands = {};
  bool for_people = true;  // otherwise neither help nor manual shows it
};

// A command that is nothing but a name for its commands, of which one must follow.
inline Command Group(const char* name, const char* help, std::vector<Command> commands) {
  return {name, help, nullptr, std::move(commands)};
}

// Adds the commands to `app`. Once it has parsed, `chosen` is what runs the command that was named. `arguments` and
// `chosen` outlive `app`.
void AddCommands(const std::vector<Command>& commands, CLI::App& app, ParsedArguments& arguments, RunFunction& chosen);

}  // namespace oneflow
