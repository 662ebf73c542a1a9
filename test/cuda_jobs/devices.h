// The CUDA devices that jobs of these tests run on: those of the machine, or software ones where the tests are linked
// with them.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/device.h"

namespace oneflow::testing {

// Empty if there are so many, else one line that says why a test is skipped.
inline std::string LacksCudaDevices(int wanted) {
  std::string why;
  if (MakeCudaDevice(wanted - 1, &why) != nullptr) return "";
  return absl::StrCat("needs ", wanted, " CUDA devices: ", why);
}

// How many there are, up to `most`.
inline int CudaDevices(int most) {
  int devices = 0;
  while (devices < most && LacksCudaDevices(devices + 1).empty()) ++devices;
  return devices;
}

}  // namespace oneflow::testing
