#include "sbp/device_kinds.h"

#include <algorithm>

#include "glog/logging.h"

namespace oneflow {
namespace {

// Times of NCCL's own model (src/graph/tuning.cc, ring, Simple): 8.4 us for a call, 3.4 us for a step over NVLink, 5.7
// over PCIe.
constexpr double kNcclCall = 8.4e-6, kNvlinkStep = 3.4e-6, kPcieStep = 5.7e-6;

// What copies between a device and pinned memory of the host reach over PCIe 4.0 and 5.0 x16, whose wires carry 31.5
// and 63 GB/s; and what one NVMe drive reads over PCIe 4.0 x4.
constexpr Link kPcie4{10e-6, 1 / 25e9}, kPcie5{10e-6, 1 / 55e9}, kNvme{100e-6, 1 / 6e9};

// Rates are the data sheets' of dense products without sparsity, f32 without TF32, since that is what the kernels
// compute; a link's are those of one direction. Real products reach some 80% of a peak: only ratios matter to a choice.
std::vector<DeviceSpeeds> MakeTable() {
  std::vector<DeviceSpeeds> table;
  table.push_back({});  // "cpu": one core with AVX-512, estimated; see topology.h
  // NVIDIA A100 data sheet (80 GB SXM): 19.5 and 312 TFLOP/s, 2,039 GB/s, NVLink 600 GB/s both ways. What
  // kernels and links reach of that is Calculon's (SC'23; systems/a100_80g.json), where bytes come on top of flops.
  table.push_back({.kind = "a100-sxm",
                   .device = DeviceKind::kCuda,
                   .f32_flops = 19.5e12,
                   .bf16_flops = 312e12,
                   .f16_flops = 312e12,
                   .memory_bytes_per_s = 2039e9,
                   .memory_bytes = int64_t{80} << 30,
                   .act_s = kNcclCall,
                   .same_process = {kNvlinkStep, 1 / (0.65 * 300e9)},
                   .same_host = {kNvlinkStep, 1 / (0.65 * 300e9)},
                   .host_tier = kPcie4,
                   .disk_tier = kNvme,
                   .product_efficiency = {{0, 0.1}, {1e9, 0.6}, {16e9, 0.9}, {128e9, 0.95}},
                   .memory_efficiency = {{0, 0.3}, {1e6, 0.6}, {10e6, 0.75}, {100e6, 0.9}},
                   .hides_memory = false});
  // NVIDIA H100 data sheet (SXM): 67 and 989 TFLOP/s, 3.35 TB/s, 80 GB, NVLink 900 GB/s both ways.
  table.push_back({.kind = "h100-sxm",
                   .device = DeviceKind::kCuda,
                   .f32_flops = 67e12,
                   .bf16_flops = 989e12,
                   .f16_flops = 989e12,
                   .memory_bytes_per_s = 3.35e12,
                   .memory_bytes = int64_t{80} << 30,
                   .act_s = kNcclCall,
                   .same_process = {kNvlinkStep, 1 / 450e9},
                   .same_host = {kNvlinkStep, 1 / 450e9},
                   .host_tier = kPcie5,
                   .disk_tier = kNvme});
  // NVIDIA H100 data sheet (PCIe): 51 and 756 TFLOP/s, 2 TB/s, 80 GB, PCIe 5.0 128 GB/s both ways.
  table.push_back({.kind = "h100-pcie",
                   .device = DeviceKind::kCuda,
                   .f32_flops = 51e12,
                   .bf16_flops = 756e12,
                   .f16_flops = 756e12,
                   .memory_bytes_per_s = 2e12,
                   .memory_bytes = int64_t{80} << 30,
                   .act_s = kNcclCall,
                   .same_process = {kPcieStep, 1 / 64e9},
                   .same_host = {kPcieStep, 1 / 64e9},
                   .host_tier = kPcie5,
                   .disk_tier = kNvme});
  // NVIDIA H200 data sheet (SXM): as H100, with 4.8 TB/s and 141 GB.
  table.push_back({.kind = "h200-sxm",
                   .device = DeviceKind::kCuda,
                   .f32_flops = 67e12,
                   .bf16_flops = 989e12,
                   .f16_flops = 989e12,
                   .memory_bytes_per_s = 4.8e12,
                   .memory_bytes = int64_t{141} * 1000 * 1000 * 1000,
                   .act_s = kNcclCall,
                   .same_process = {kNvlinkStep, 1 / 450e9},
                   .same_host = {kNvlinkStep, 1 / 450e9},
                   .host_tier = kPcie5,
                   .disk_tier = kNvme});
  // AMD MI250X data sheet, one of its two dies, as Frontier has it (OLCF user guide): 23.9 and 191.5 TFLOP/s, 1.6 TB/s,
  // 64 GB; 200 GB/s to the other die of the card, 50 GB/s to one of another card. A process is a card of two dies.
  table.push_back({.kind = "mi250x-die",
                   .device = DeviceKind::kCuda,
                   .f32_flops = 23.9e12,
                   .bf16_flops = 191.5e12,
                   .f16_flops = 191.5e12,
                   .memory_bytes_per_s = 1.6e12,
                   .memory_bytes = int64_t{64} << 30,
                   .act_s = kNcclCall,
                   .same_process = {kNvlinkStep, 1 / 200e9},
                   .same_host = {kNvlinkStep, 1 / 50e9},
                   .host_tier = kPcie4,
                   .disk_tier = kNvme});
  return table;
}

}  // namespace

const std::vector<DeviceSpeeds>& KnownDevices() {
  static const auto* const kTable = new std::vector<DeviceSpeeds>(MakeTable());
  return *kTable;
}

const DeviceSpeeds* FindDevice(const std::vector<DeviceSpeeds>& table, absl::string_view kind) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const DeviceSpeeds& row) { return row.kind == kind; });
  return it == table.end() ? nullptr : &*it;
}

const DeviceSpeeds& UsualDevice(DeviceKind device) {
  return *CHECK_NOTNULL(FindDevice(KnownDevices(), device == DeviceKind::kCpu ? "cpu" : "h100-sxm"));
}

}  // namespace oneflow
