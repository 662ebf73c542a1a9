// Four software devices for the tests of this program and for the commands that they start, unless the environment says
// otherwise. Their kernels are watched in the kernels' own tests; here that would take most of the time.
#include <cstdlib>

#include "test/support/paths.h"

namespace oneflow {
namespace {

// Before anything looks into the environment, static objects included.
[[gnu::constructor(101)]] void SetEnvironment() {
  setenv("SOFTWARE_CUDA_DEVICES", "4", /*overwrite=*/0);
  setenv("SOFTWARE_CUDA_UNWATCHED", "1", /*overwrite=*/0);
  setenv("ONEFLOW_COMMAND", (BinaryDir() + "/test/oneflow_on_software_cuda").c_str(), /*overwrite=*/0);
}

}  // namespace
}  // namespace oneflow
