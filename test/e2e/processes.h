// Processes as /proc shows them, held by descriptors so that their numbers cannot come to mean others.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace oneflow::e2e {

struct Process {
  int pid = 0;
  int parent = 0;
  std::string command;
  int pidfd = -1;

  void Kill(int signal) const;
  bool GoneWithin(absl::Duration timeout) const;
  void Close();
  // Memory of it that is in RAM; 0 if it is gone.
  int64_t ResidentBytes() const;
};

// All processes that descend from `root`, opened.
std::vector<Process> DescendantsOf(int root);

// Shared memory of ours with a name. Others may make and remove theirs meanwhile.
std::set<std::string> NamedSharedMemory();

}  // namespace oneflow::e2e
