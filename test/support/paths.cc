#include "test/support/paths.h"

namespace oneflow {

std::string SourceDir() { return ONEFLOW_SOURCE_DIR; }

std::string BinaryDir() { return ONEFLOW_BINARY_DIR; }

}  // namespace oneflow
