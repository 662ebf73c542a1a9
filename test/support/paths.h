// Where the project and this build of it lie, as absolute paths.
#pragma once

#include <string>

namespace oneflow {

std::string SourceDir();
std::string BinaryDir();

}  // namespace oneflow
