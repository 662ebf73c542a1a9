#include "tools/cli/command.h"

namespace oneflow {

void AddCommands(const std::vector<Command>& commands, CLI::App& app, ParsedArguments& arguments, RunFunction& chosen) {
  for (const Command& command : commands) {
    CLI::App* const added = app.add_subcommand(command.name, command.help);
    if (!command.for_people) added->group("");
    if (command.declare == nullptr) {
      added->require_subcommand(1);
    } else {
      // One that has commands is called after that which was named of them, and leaves the choice to it.
      added->callback([added, run = command.declare(*added, arguments), &chosen] {
        if (added->get_subcommands().empty()) chosen = run;
      });
    }
    AddCommands(command.commands, *added, arguments, chosen);
  }
}

}  // namespace oneflow
