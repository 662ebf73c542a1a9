#include "tools/cli/manual.h"

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace oneflow {
namespace {

using Commands = std::vector<const CLI::App*>;
using Options = std::vector<const CLI::Option*>;

Commands CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

Options OptionsOf(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

// Calls `visit` for the app and all commands below it, with the words that lead there: "oneflow plan show".
void Walk(const CLI::App& app, const std::string& words,
          const std::function<void(const std::string& words, const CLI::App& app)>& visit) {
  visit(words, app);
  for (const CLI::App* command : CommandsOf(app)) Walk(*command, absl::StrCat(words, " ", command->get_name()), visit);
}

// "-o", "--output".
std::vector<std::string> Spellings(const CLI::Option& option) {
  std::vector<std::string> spellings;
  for (const std::string& name : option.get_snames()) spellings.push_back(absl::StrCat("-", name));
  for (const std::string& name : option.get_lnames()) spellings.push_back(absl::StrCat("--", name));
  return spellings;
}

// The words that lead to some command, as patterns of a shell's `case`.
std::string CommandPatterns(const CLI::App& app) {
  std::vector<std::string> patterns;
  Walk(app, app.get_name(), [&](const std::string& words, const CLI::App& command) {
    if (&command != &app) patterns.push_back(absl::StrCat("\"", words, "\""));
  });
  return absl::StrJoin(patterns, "|");
}

// --- man ---

std::string Roff(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (!escaped.empty() && (escaped[0] == '.' || escaped[0] == '\'')) escaped.insert(0, "\\&");  // not a request
  return escaped;
}

std::string RoffOption(const CLI::Option& option) {
  const bool takes = option.get_items_expected_max() > 0;
  const std::string names = option.get_positional() ? option.get_name(true)
                                                    : absl::StrJoin(Spellings(option), ", ") + (takes ? " VALUE" : "");
  return absl::StrCat(".TP\n.B ", Roff(names), "\n", Roff(option.get_description()), "\n");
}

// --- zsh ---

// In single quotes, where a colon ends what is completed.
std::string ZshChoice(absl::string_view name, absl::string_view help) {
  return absl::StrCat("'", absl::StrReplaceAll(name, {{":", "\\:"}}), ":",
                      absl::StrReplaceAll(help, {{"'", "'\\''"}, {":", "\\:"}, {"\n", " "}}), "'");
}

std::string ZshChoices(const CLI::App& app) {
  std::vector<std::string> choices;
  for (const CLI::App* command : CommandsOf(app)) {
    choices.push_back(ZshChoice(command->get_name(), command->get_description()));
  }
  for (const CLI::Option* option : OptionsOf(app)) {
    for (const std::string& name : Spellings(*option)) choices.push_back(ZshChoice(name, option->get_description()));
  }
  return absl::StrJoin(choices, " ");
}

std::string BashWords(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* command : CommandsOf(app)) words.push_back(command->get_name());
  for (const CLI::Option* option : OptionsOf(app)) {
    for (const std::string& name : Spellings(*option)) words.push_back(name);
  }
  return absl::StrJoin(words, " ");
}

}  // namespace

std::string ManPage(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string text = absl::StrCat(".TH ", name, " 1\n.SH NAME\n", name, " \\- ", Roff(app.get_description()),
                                  "\n.SH SYNOPSIS\n.B ", name, "\nCOMMAND [ARGUMENT]...\n.SH COMMANDS\n");
  Walk(app, name, [&](const std::string& words, const CLI::App& command) {
    if (&command == &app) return;
    absl::StrAppend(&text, ".SS ", Roff(words), "\n", Roff(command.get_description()), "\n");
    for (const CLI::Option* option : OptionsOf(command)) absl::StrAppend(&text, RoffOption(*option));
  });
  return text;
}

std::string BashCompletion(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string text =
      absl::StrCat("_", name, "() {\n  local current=${COMP_WORDS[COMP_CWORD]} at=", name, " choices= word\n",
                   "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$at $word\" in\n      ",
                   CommandPatterns(app), ") at=\"$at $word\" ;;\n    esac\n  done\n  case $at in\n");
  Walk(app, name, [&](const std::string& words, const CLI::App& command) {
    absl::StrAppend(&text, "    \"", words, "\") choices=\"", BashWords(command), "\" ;;\n");
  });
  absl::StrAppend(&text, "  esac\n  mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$current\"",
                  "; compgen -f -- \"$current\")\n}\ncomplete -o filenames -F _", name, " ", name, "\n");
  return text;
}

std::string ZshCompletion(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string text =
      absl::StrCat("#compdef ", name, "\n_", name, "() {\n  local at=", name, " word\n  local -a choices\n",
                   "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n    case \"$at $word\" in\n      (",
                   CommandPatterns(app), ") at=\"$at $word\" ;;\n    esac\n  done\n  case $at in\n");
  Walk(app, name, [&](const std::string& words, const CLI::App& command) {
    absl::StrAppend(&text, "    (\"", words, "\") choices=(", ZshChoices(command), ") ;;\n");
  });
  absl::StrAppend(&text, "  esac\n  _describe ", name, " choices\n  _files\n}\n", "if [ \"$funcstack[1]\" = _", name,
                  " ]; then _", name, " \"$@\"; else compdef _", name, " ", name, "; fi\n");
  return text;
}

}  // namespace oneflow
