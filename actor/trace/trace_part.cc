#include "actor/trace/trace_part.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/trace/traced_program.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/util/delimited_message_util.h"

namespace oneflow {
namespace {

using google::protobuf::io::FileInputStream;
using google::protobuf::io::FileOutputStream;
using google::protobuf::util::ParseDelimitedFromZeroCopyStream;
using google::protobuf::util::SerializeDelimitedToZeroCopyStream;

constexpr int kActsPerFrame = 4096;

// `before` is the begin of the act before, and becomes this one's.
void AddToColumns(const TracedAct& act, int64_t& before, pb::TraceActs* to) {
  to->add_runs(act.run);
  to->add_plans(act.plan);
  to->add_actors(act.actor);
  to->add_steps(act.step);
  to->add_acts(act.act);
  to->add_begins(act.begin_ns - before);
  to->add_durations(act.end_ns - act.begin_ns);
  to->add_waits(act.begin_ns - act.ready_ns);
  to->add_causes(act.cause);
  to->add_registers(act.register_id);
  before = act.begin_ns;
}

absl::Status TakeFromColumns(const pb::TraceActs& from, std::vector<TracedAct>& acts) {
  const int count = from.runs_size();
  for (const int size : {from.plans_size(), from.actors_size(), from.steps_size(), from.acts_size(), from.begins_size(),
                         from.durations_size(), from.waits_size(), from.causes_size(), from.registers_size()}) {
    if (size != count) {
      return absl::InvalidArgumentError(absl::StrCat("a column of ", size, " acts beside one of ", count));
    }
  }
  int64_t begin = 0;
  for (int i = 0; i < count; ++i) {
    begin += from.begins(i);
    acts.push_back({.ready_ns = begin - from.waits(i),
                    .begin_ns = begin,
                    .end_ns = begin + from.durations(i),
                    .step = from.steps(i),
                    .act = from.acts(i),
                    .run = from.runs(i),
                    .plan = from.plans(i),
                    .actor = from.actors(i),
                    .register_id = from.registers(i),
                    .cause = from.causes(i)});
  }
  return absl::OkStatus();
}

// An act of a program's actor, with the numbers of the whole job.
TracedAct InWholeJob(TracedAct act, const pb::Program& program) {
  if (!program.has_process()) return act;
  const pb::Plan& plan = program.plans(act.plan);
  act.actor = plan.actors(act.actor).id();
  if (act.register_id >= 0) act.register_id = plan.registers(act.register_id).id();
  return act;
}

bool WriteRing(const TraceRing& ring, const pb::Program& program, FileOutputStream& out) {
  pb::TraceActs frame;
  int64_t before = 0;
  for (size_t i = 0; i < ring.size(); ++i) {
    AddToColumns(InWholeJob(ring[i], program), before, &frame);
    if (frame.runs_size() < kActsPerFrame && i + 1 < ring.size()) continue;
    if (!SerializeDelimitedToZeroCopyStream(frame, &out)) return false;
    frame.Clear();
    before = 0;
  }
  return true;
}

// On the clock of process 0, with the origin in `zero`.
void SetClock(const pb::TraceProcess& zero, TracePart& part) {
  pb::TraceProcess& process = *part.head.mutable_processes(0);
  if (!zero.clock().empty() && process.clock() == zero.clock()) {
    process.clear_clock_ahead_ns();
    process.clear_clock_error_ns();
  }
  const int64_t ahead = process.clock_ahead_ns();
  for (TracedAct& act : part.acts) {
    act.ready_ns -= ahead;
    act.begin_ns -= ahead;
    act.end_ns -= ahead;
  }
}

// Time begins with the first known event.
void BeginAtZero(std::vector<TracedAct>& acts) {
  int64_t first = INT64_MAX;
  for (const TracedAct& act : acts) first = std::min({first, act.ready_ns, act.begin_ns});
  for (TracedAct& act : acts) {
    act.ready_ns -= first;
    act.begin_ns -= first;
    act.end_ns -= first;
  }
}

}  // namespace

absl::Status WriteTracePart(const std::string& path, const pb::Program& program, pb::TraceProcess process,
                            const std::vector<const TraceRing*>& rings) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("'", path, "': cannot write: ", std::strerror(errno)));
  FileOutputStream out(fd);
  out.SetCloseOnDelete(true);
  for (const TraceRing* ring : rings) process.set_lost_acts(process.lost_acts() + ring->lost());
  pb::TraceHead head;
  head.set_version(kTraceVersion);
  *head.mutable_program() = TracedProgram(program, process.process());
  *head.add_processes() = std::move(process);
  bool written = SerializeDelimitedToZeroCopyStream(head, &out);
  for (const TraceRing* ring : rings) written = written && WriteRing(*ring, program, out);
  if (written && out.Flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("'", path, "': cannot write: ", std::strerror(out.GetErrno())));
}

absl::StatusOr<TracePart> ReadTracePart(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("'", path, "': cannot open: ", std::strerror(errno)));
  FileInputStream in(fd);
  in.SetCloseOnDelete(true);
  TracePart part;
  bool clean_end = false;
  if (!ParseDelimitedFromZeroCopyStream(&part.head, &in, &clean_end) || part.head.processes_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no part of a trace"));
  }
  while (true) {
    pb::TraceActs frame;
    if (!ParseDelimitedFromZeroCopyStream(&frame, &in, &clean_end)) break;
    OF_RETURN_IF_ERROR_AT(TakeFromColumns(frame, part.acts), absl::StrCat("'", path, "'"));
  }
  if (clean_end) return part;
  return absl::InvalidArgumentError(absl::StrCat("'", path, "': ends within a frame"));
}

absl::StatusOr<Trace> MergeTraceParts(std::vector<TracePart> parts) {
  Trace trace;
  trace.head.set_version(kTraceVersion);
  const pb::TraceProcess zero = parts[0].head.processes(0);
  const int plans = parts[0].head.program().plans_size();
  std::vector<pb::Program> programs;
  for (TracePart& part : parts) {
    if (part.head.version() != kTraceVersion || part.head.program().plans_size() != plans) {
      return absl::InvalidArgumentError(absl::StrCat("process ", part.head.processes(0).process(), " traced ",
                                                     part.head.program().plans_size(), " plans in format ",
                                                     part.head.version(), "; process 0 traced ", plans,
                                                     ", and our format is ", kTraceVersion));
    }
    SetClock(zero, part);
    *trace.head.add_processes() = part.head.processes(0);
    trace.acts.insert(trace.acts.end(), part.acts.begin(), part.acts.end());
    part.acts = {};
    programs.push_back(std::move(*part.head.mutable_program()));
  }
  OF_ASSIGN_OR_RETURN(const MergedProgram merged, MergedProgram::Of(programs));
  *trace.head.mutable_program() = merged.program();
  for (TracedAct& act : trace.acts) {
    act.actor = merged.ActorIndex(act.plan, act.actor);
    if (act.register_id >= 0) act.register_id = merged.RegisterIndex(act.plan, act.register_id);
  }
  OF_RETURN_IF_ERROR(CheckTraceHead(trace.head));
  BeginAtZero(trace.acts);
  for (const TracedAct& act : trace.acts) OF_RETURN_IF_ERROR(CheckTracedAct(trace.head, act));
  SortActs(trace.acts);
  return trace;
}

}  // namespace oneflow
