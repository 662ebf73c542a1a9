// `oneflow bench device`: measures what prices need to know of this machine's device, and writes it as a row of a table
// of devices (tools/job/device_table.h) that a job names in cluster.device_table.
//
//   products        matmul of our kernels on 1024 x 1024, in f32 and whatever else has such a kernel; the rest as f32
//   memory          relu over 64 MiB, read and written
//                   (on a cuda device 4096 x 4096 and 256 MiB, ten launches at a time: waiting takes little then)
//   within process  a message through a mailbox to another thread; the copy of 16 MiB that another thread wrote
//   within host     a message through a ring in memory that is mapped twice; the same copy, as processes share memory
//   an act          a message there and back
//   disk tier       256 MiB read and as many written at once, in the folder for temporary files
//
// Of a cuda device products and memory are measured; its links take two devices, and keep the figures of the usual one.
#pragma once

#include <string>

#include "oneflow_core/mesh.h"
#include "oneflow_core/status.h"
#include "sbp/topology.h"

namespace oneflow {

struct BenchDeviceArguments {
  std::string device = "cpu";  // or "cuda"
  std::string kind;            // name of the row; empty: `device`
  int cores = 1;               // of a cpu device
  std::string output;          // file; empty: stdout
};

// Unavailable if there is no such device; Internal naming what could not be measured.
absl::StatusOr<DeviceSpeeds> MeasureDevice(DeviceKind kind, int cores);

// The most that kernels of a device reach: rates of products and of memory only. Errors as above.
absl::StatusOr<DeviceSpeeds> PeakRates(DeviceKind kind, int cores);
// Of each rate the greater.
void KeepFaster(const DeviceSpeeds& one, DeviceSpeeds& best);

// InvalidArgument for an unknown device or no cores; errors of MeasureDevice; Unavailable if the file cannot be
// written.
absl::Status BenchDeviceCommand(const BenchDeviceArguments& arguments);

}  // namespace oneflow
