// Which processes can map one another's memory, as those of a job do that lie on one host (actor/transport).
#pragma once

#include <string>

namespace oneflow {

// The same in all processes that find one another in /proc, and in no others: those of one boot of a kernel, one PID
// namespace and one user. Containers of one machine differ, and so do machines of one name. Where that cannot be told,
// it is of this process alone.
std::string MemorySpace();

// Of this process, and of those that come of it, alone: another in each call.
std::string OwnMemorySpace();

}  // namespace oneflow
