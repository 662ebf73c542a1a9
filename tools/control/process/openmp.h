// How the OpenMP threads of our children wait.
#pragma once

#include <string>
#include <vector>

namespace oneflow {

// For ChildOptions::environment; empty if our own environment says something already.
//
// An idle OpenMP thread looks for work so often before it sleeps. 1000 looks take about 50 us, longer than the gap
// between two kernels; the default of 300000 burns a whole time slice whenever a thread of the team has lost its core
// to another process, which on a busy machine multiplied the cpu time of a step by six.
std::vector<std::string> OpenMpEnvironment();

}  // namespace oneflow
