// Traces as files that people open: JSON in Chrome's trace event format, which https://ui.perfetto.dev and
// chrome://tracing show. They hold everything that a trace knows, so they can be read back.
//
//   {"traceEvents":[
//   {"ph":"M", ...            a process per rank, a thread per queue: their names and order
//   {"ph":"X", ...            an act; `args` have its step, micro-batch and last wait
//   {"ph":"s", ...            an arrow begins, at the end of the act that filled or freed
//   {"ph":"f", ...            and ends, at the begin of the act that waited for it last
//   ],"oneflow":"{...}"}      TraceHead as protobuf's JSON, a text: behind what viewers read
//
// An event is a line. Times are in microseconds, to the nanosecond, from the begin of the trace.
#pragma once

#include <string>

#include "actor/trace/trace.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Compressed by gzip if the name ends in ".gz", which viewers read too. `path` leads to the file as in output_file.h,
// with its errors; Unavailable if the disk refuses.
absl::Status WriteChromeTrace(const Trace& trace, const std::string& path);

// NotFound if there is no such file; InvalidArgument, with the fault, if it is no JSON, another program's trace, or a
// damaged one. Holds one event at a time beside the acts.
absl::StatusOr<Trace> ReadChromeTrace(const std::string& path);

}  // namespace oneflow
