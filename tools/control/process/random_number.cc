#include "tools/control/process/random_number.h"

#include <random>

namespace oneflow {

uint64_t RandomNumber() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace oneflow
