// What the values of options may be, checked before a command begins: a wrong one is wrong usage.
#pragma once

#include <cstdint>

#include "CLI/CLI.hpp"

namespace oneflow {

// PORT of this machine or HOST:PORT, where something is served. Port 0 lets the system choose one.
CLI::Validator PlaceToServe();
// HOST:PORT, an IPv6 host in brackets. Port 0 only where `may_choose`: where one listens, not where one calls.
CLI::Validator HostAndPort(bool may_choose);
// HOST without a port.
CLI::Validator HostAlone();
// A number in [least, most], which NaN is not.
CLI::Validator NumberIn(double least, double most);

// A whole number from `least` on.
CLI::Validator WholeFrom(int64_t least);
// A text that a scheduler can be told.
CLI::Validator Utf8();

// The first argument "--OPTION=" that has nothing behind its sign, which CLI11 would take the next argument for; null
// if there is none.
const char* FindWithoutValue(int argc, char** argv);

}  // namespace oneflow
