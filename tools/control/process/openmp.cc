#include "tools/control/process/openmp.h"

#include <cstdlib>

namespace oneflow {

std::vector<std::string> OpenMpEnvironment() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return {};
  return {"GOMP_SPINCOUNT=1000"};
}

}  // namespace oneflow
