// `oneflow man` and `oneflow completion`.
#include <iostream>
#include <string>
#include <vector>

#include "tools/cli/commands.h"
#include "tools/cli/manual.h"

namespace oneflow {
namespace {

const CLI::App& WholeCommandLine(const CLI::App& app) {
  return app.get_parent() == nullptr ? app : WholeCommandLine(*app.get_parent());
}

RunFunction DeclareMan(CLI::App& app, ParsedArguments&) {
  return [&app] {
    std::cout << ManPage(WholeCommandLine(app));
    return 0;
  };
}

RunFunction DeclareCompletion(CLI::App& app, ParsedArguments& arguments) {
  std::string& shell = arguments.New<std::string>();
  app.add_option("shell", shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  return [&app, &shell] {
    const CLI::App& all = WholeCommandLine(app);
    std::cout << (shell == "zsh" ? ZshCompletion(all) : BashCompletion(all));
    return 0;
  };
}

}  // namespace

std::vector<Command> ManualCommands() {
  return {
      {"man", "print this program's man page, for `man -l -`", DeclareMan},
      {"completion", "print what completes this program's commands in a shell, to be sourced there", DeclareCompletion},
  };
}

}  // namespace oneflow
