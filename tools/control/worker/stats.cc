#include "tools/control/worker/stats.h"

#include <sys/resource.h>

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/control/process/peak_bytes.h"

namespace oneflow {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

pb::WorkerStats MakeWorkerStats(const EngineStats& engine) {
  pb::WorkerStats stats;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  stats.set_cpu_seconds(Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  stats.set_run_seconds(engine.run_seconds);
  stats.set_kernel_seconds(engine.kernel_seconds);
  stats.set_idle_seconds(engine.idle_seconds);
  stats.set_communication_seconds(engine.communication_seconds);
  stats.set_acts(engine.acts);
  stats.set_bytes_moved(engine.bytes_moved);
  stats.set_bytes_sent(engine.bytes_sent);
  stats.set_register_bytes(engine.register_bytes);
  stats.set_scratch_bytes(engine.scratch_bytes);
  stats.set_peak_bytes(PeakBytes());
  for (const OpTime& time : engine.ops) {
    pb::OpTime& op = *stats.add_ops();
    op.set_op(time.op);
    op.set_calls(time.calls);
    op.set_seconds(time.seconds);
  }
  return stats;
}

pb::TimedValue MakeTimedValue(Fetched fetched) {
  pb::TimedValue value;
  value.set_time_us(absl::ToUnixMicros(absl::Now()));
  value.mutable_value()->set_plan(std::move(fetched.plan));
  value.mutable_value()->set_name(std::move(fetched.name));
  value.mutable_value()->set_step(fetched.step);
  value.mutable_value()->mutable_values()->Assign(fetched.values.begin(), fetched.values.end());
  if (fetched.weight.has_value()) value.mutable_value()->set_weight(*fetched.weight);
  return value;
}

}  // namespace oneflow
