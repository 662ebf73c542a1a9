// The scratch memory of the kernels that a job will run, for its plan.
#pragma once

#include "compiler/kernel_scratch.h"
#include "oneflow_core/mesh.h"

namespace oneflow {

// As the kernels of this program ask for it. None for cuda where this program was built without the toolkit. `threads`:
// cores that a device may use.
KernelScratch ScratchOfKernels(DeviceKind device, int threads);

}  // namespace oneflow
