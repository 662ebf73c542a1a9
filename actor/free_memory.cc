#include "actor/free_memory.h"

#include <algorithm>
#include <string>

#include "actor/local_device.h"
#include "kernels/device.h"
#include "oneflow_core/library_memory.h"
#include "oneflow_core/zones.h"

namespace oneflow {

absl::Status CheckFreeMemory(const pb::Program& program, int process) {
  for (int rank = 0; rank < program.ranks_size(); ++rank) {
    const pb::Rank& it = program.ranks(rank);
    if (it.process() != process) continue;
    const std::string where = absl::StrCat("rank ", rank, " (", it.device(), ")");
    OF_ASSIGN_OR_RETURN_AT(const Device device, LocalDevice(program, rank), where);
    if (device.kind != DeviceKind::kCuda) continue;
    std::string why;
    const std::optional<DeviceMemory> memory = CudaMemory(device.index, &why);
    if (!memory.has_value()) return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", why));
    const int64_t plan = BytesOfZones(it);
    const int64_t libraries = std::max<int64_t>(0, it.library_bytes() - kCudaContextBytes);  // which is there already
    if (memory->free_bytes >= libraries && memory->free_bytes - libraries >= plan) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat(where, ": the plan takes ", plan, " bytes and libraries about ", libraries,
                     " more, but of the device's ", memory->total_bytes, " bytes ", memory->free_bytes,
                     " are free. What libraries take is cluster.library_bytes_per_device"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
