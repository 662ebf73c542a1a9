// What a command line says of itself, in three forms, all taken from the parser's own tree, so that none can fall
// behind: a man page, and completions for bash and zsh. Commands and options that are not for people are left out.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace oneflow {

// For `man -l`: every command with its arguments.
std::string ManPage(const CLI::App& app);
// To be sourced; completes commands, options and files.
std::string BashCompletion(const CLI::App& app);
// To be sourced, or found as `_oneflow` in $fpath; says what each choice is for.
std::string ZshCompletion(const CLI::App& app);

}  // namespace oneflow
