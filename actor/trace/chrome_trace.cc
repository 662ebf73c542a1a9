#include "actor/trace/chrome_trace.h"

#include <cstdlib>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/output_file.h"
#include "actor/trace/gzip_writer.h"
#include "actor/trace/track.h"
#include "google/protobuf/util/json_util.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr int kTracksPerRank = 16;  // more than a device has queues

// Numbers of processes and threads for viewers. To some 0 means nobody, and threads are identified by their number
// alone.
int ViewerProcess(int rank) { return rank + 1; }
int ViewerThread(int rank, int queue) { return rank * kTracksPerRank + queue + 1; }

// "12.345" for 12345 ns.
std::string Micros(int64_t ns) {
  return absl::StrFormat("%s%d.%03d", ns < 0 ? "-" : "", std::abs(ns / 1000), std::abs(ns % 1000));
}

// A JSON string without \u, which not every viewer reads: there are no control characters in our names.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c);
  }
  return quoted + "\"";
}

class ChromeTraceWriter {
 public:
  ChromeTraceWriter(const Trace& trace, GzipWriter& out) : trace_(trace), index_(trace), out_(out) {}

  absl::Status Write() {
    out_.Write("{\"traceEvents\":[\n");
    WriteTracks();
    for (const TracedAct& act : trace_.acts) WriteAct(act);
    std::string head;
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    if (!google::protobuf::util::MessageToJsonString(trace_.head, &head, options).ok()) {
      return absl::InvalidArgumentError("a name in the trace is no text");
    }
    out_.Write(absl::StrCat("\n],\"oneflow\":", Quoted(head), "}\n"));
    return out_.Close();
  }

 private:
  void Event(absl::string_view text) {
    out_.Write(first_ ? "" : ",\n");
    out_.Write(text);
    first_ = false;
  }
  std::string Place(const pb::Actor& actor) const {
    return absl::StrCat("\"pid\":", ViewerProcess(actor.rank()),
                        ",\"tid\":", ViewerThread(actor.rank(), QueueOf(actor)));
  }

  // Ranks and queues in their order.
  void WriteTracks() {
    std::set<std::pair<int, int>> tracks;
    for (const TracedAct& act : trace_.acts) {
      const pb::Actor& actor = trace_.ActorOf(act);
      tracks.insert({actor.rank(), QueueOf(actor)});
    }
    int last_rank = -1;
    for (const auto& [rank, queue] : tracks) {
      if (rank != last_rank) NameRank(rank);
      last_rank = rank;
      NameQueue(rank, queue);
    }
  }
  void NameRank(int rank) {
    const pb::Rank& r = trace_.head.program().ranks(rank);
    const std::string name = absl::StrCat("rank ", rank, " (", r.device(), ", process ", r.process(), ")");
    Event(absl::StrCat("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", ViewerProcess(rank),
                       ",\"args\":{\"name\":", Quoted(name), "}}"));
    Event(absl::StrCat("{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":", ViewerProcess(rank),
                       ",\"args\":{\"sort_index\":", rank, "}}"));
  }
  void NameQueue(int rank, int queue) {
    const bool launches = absl::StartsWith(trace_.head.program().ranks(rank).device(), "cuda");
    const std::string name = absl::StrCat(QueueName(queue), launches ? " (launches)" : "");
    const std::string place = absl::StrCat("\"pid\":", ViewerProcess(rank), ",\"tid\":", ViewerThread(rank, queue));
    Event(absl::StrCat("{\"ph\":\"M\",\"name\":\"thread_name\",", place, ",\"args\":{\"name\":", Quoted(name), "}}"));
    Event(absl::StrCat("{\"ph\":\"M\",\"name\":\"thread_sort_index\",", place, ",\"args\":{\"sort_index\":", queue,
                       "}}"));
  }

  void WriteAct(const TracedAct& act) {
    const pb::Actor& actor = trace_.ActorOf(act);
    const TracedAct* const cause = index_.CauseOf(act);
    const bool arrow = cause != nullptr && act.cause != pb::ITSELF;
    if (arrow) WriteArrow(act, "\"ph\":\"s\"", *cause, std::max(cause->begin_ns, cause->end_ns - 1));
    Event(absl::StrCat("{\"ph\":\"X\",", Place(actor), ",\"ts\":", Micros(act.begin_ns),
                       ",\"dur\":", Micros(act.end_ns - act.begin_ns), ",\"name\":", Quoted(actor.name()),
                       ",\"cat\":", Quoted(trace_.PlanOf(act).name()), ",\"args\":{\"step\":", act.step,
                       ",\"micro_batch\":", act.act % std::max(1, actor.acts_per_step()),
                       ",\"waited_for\":", Quoted(WaitText(act, cause)), ",\"ready\":", Micros(act.ready_ns),
                       ",\"run\":", act.run, ",\"plan\":", act.plan, ",\"actor\":", act.actor, ",\"act\":", act.act,
                       ",\"cause\":\"", pb::Cause_Name(act.cause), "\",\"register\":", act.register_id, "}}"));
    // Behind the act, within which it ends: viewers order events of the same time as in the file.
    if (arrow) WriteArrow(act, "\"ph\":\"f\",\"bp\":\"e\"", act, act.begin_ns);
  }

  // One end of the arrow to `act`: in `at`, at that time. Both have one name and id, by which viewers join them.
  void WriteArrow(const TracedAct& act, absl::string_view phase, const TracedAct& at, int64_t ns) {
    Event(absl::StrCat("{", phase, ",\"id\":", &act - trace_.acts.data() + 1, ",", Place(trace_.ActorOf(at)),
                       ",\"ts\":", Micros(ns),
                       ",\"name\":", Quoted(trace_.PlanOf(act).registers(act.register_id).name()), ",\"cat\":\"",
                       act.cause == pb::FILLED ? "filled" : "freed", "\"}"));
  }

  std::string WaitText(const TracedAct& act, const TracedAct* cause) const {
    switch (act.cause) {
      case pb::START:
        return "the run";
      case pb::ITSELF:
        return "its act before";
      case pb::TURN:
        return "other collectives";
      default:
        break;
    }
    const std::string by = cause == nullptr ? ""
                                            : absl::StrCat(" by '", trace_.ActorOf(*cause).name(), "' on rank ",
                                                           trace_.ActorOf(*cause).rank());
    return absl::StrCat("register '", trace_.PlanOf(act).registers(act.register_id).name(),
                        act.cause == pb::FILLED ? "' filled" : "' freed", by);
  }

  const Trace& trace_;
  const ActIndex index_;
  GzipWriter& out_;
  bool first_ = true;
};

}  // namespace

absl::Status WriteChromeTrace(const Trace& trace, const std::string& path) {
  OF_ASSIGN_OR_RETURN(const OutputPlace place, FindOutput(path));
  const std::string written = place.is_stream ? place.path : absl::StrCat(place.path, ".partial");
  OF_ASSIGN_OR_RETURN(GzipWriter out, GzipWriter::Create(written, absl::EndsWith(path, ".gz")));
  OF_RETURN_IF_ERROR(ChromeTraceWriter(trace, out).Write());
  return place.is_stream ? absl::OkStatus() : ReplaceFileBy(written, place.path);
}

}  // namespace oneflow
