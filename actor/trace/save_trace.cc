#include "actor/trace/save_trace.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "actor/trace/chrome_trace.h"
#include "actor/trace/trace_part.h"
#include "actor/transport/peer_clock.h"
#include "actor/transport/peer_network.h"

namespace oneflow {
namespace {

std::string PartPath(const std::string& path, int process) { return absl::StrCat(path, ".part", process); }

absl::StatusOr<pb::TraceProcess> DescribeProcess(const TraceSource& source) {
  pb::TraceProcess process;
  process.set_process(source.process);
  process.set_clock(SteadyClockName());
  if (source.process == 0) return process;
  OF_ASSIGN_OR_RETURN(const ClockReading clock, source.peers->CompareClock(0));
  process.set_clock_ahead_ns(clock.ahead_ns);
  process.set_clock_error_ns(clock.error_ns);
  return process;
}

absl::Status MergeParts(const std::string& path, int num_processes) {
  std::vector<TracePart> parts;
  for (int p = 0; p < num_processes; ++p) {
    OF_ASSIGN_OR_RETURN_AT(TracePart part, ReadTracePart(PartPath(path, p)),
                           absl::StrCat("what process ", p, " wrote must be where process 0 sees it"));
    parts.push_back(std::move(part));
  }
  OF_ASSIGN_OR_RETURN_AT(const Trace trace, MergeTraceParts(std::move(parts)), absl::StrCat("'", path, "'"));
  return WriteChromeTrace(trace, path);
}

}  // namespace

absl::Status SaveTrace(const TraceSource& source, const std::string& path,
                       const std::function<absl::Status()>& barrier) {
  const std::string part = PartPath(path, source.process);
  OF_ASSIGN_OR_RETURN(pb::TraceProcess process, DescribeProcess(source));
  OF_RETURN_IF_ERROR(WriteTracePart(part, source.program, std::move(process), source.rings));
  absl::Status status = barrier();
  if (status.ok() && source.process == 0) {
    status = MergeParts(path, source.peers == nullptr ? 1 : source.peers->num_processes());
  }
  if (status.ok()) status = barrier();
  std::remove(part.c_str());
  return status;
}

}  // namespace oneflow
