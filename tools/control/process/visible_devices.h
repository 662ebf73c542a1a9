// Which CUDA devices our children see.
#pragma once

#include <string>
#include <vector>

namespace oneflow {

// For ChildOptions::environment: a child with it sees only these of the devices that we see, numbered from 0 in this
// order. Where our own environment names what we see, those that it does not name are not there for the child either.
std::string VisibleDevices(const std::vector<int>& devices);

}  // namespace oneflow
