#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "actor/data/data_file.h"
#include "actor/trace/chrome_trace.h"
#include "actor/trace/traced_program.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

using TraceJson = nlohmann::json;

// Takes a number out of an object; remembers if anything was none.
class Numbers {
 public:
  int64_t Integer(const TraceJson& object, const char* key) {
    const auto it = object.find(key);
    if (it != object.end() && it->is_number_integer()) return it->get<int64_t>();
    missing_ = missing_ == nullptr ? key : missing_;
    return -1;
  }
  int32_t Small(const TraceJson& object, const char* key) {
    const int64_t value = Integer(object, key);
    return value == static_cast<int32_t>(value) ? static_cast<int32_t>(value) : INT32_MAX;
  }
  // Of microseconds.
  int64_t Nanoseconds(const TraceJson& object, const char* key) {
    constexpr double kMost = 1e15;  // beyond all that CheckTracedAct lets pass, less than what an integer holds
    const auto it = object.find(key);
    if (it != object.end() && it->is_number() && std::abs(it->get<double>()) < kMost) {
      return std::llround(it->get<double>() * 1000);
    }
    missing_ = missing_ == nullptr ? key : missing_;
    return 0;
  }
  const char* missing() const { return missing_; }

 private:
  const char* missing_ = nullptr;
};

absl::StatusOr<TracedAct> ActOf(const TraceJson& event) {
  Numbers numbers;
  TracedAct act;
  act.begin_ns = numbers.Nanoseconds(event, "ts");
  act.end_ns = act.begin_ns + numbers.Nanoseconds(event, "dur");
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return absl::InvalidArgumentError("an act has no 'args'");
  act.ready_ns = numbers.Nanoseconds(*args, "ready");
  act.step = numbers.Integer(*args, "step");
  act.act = numbers.Integer(*args, "act");
  act.run = numbers.Small(*args, "run");
  act.plan = numbers.Small(*args, "plan");
  act.actor = numbers.Small(*args, "actor");
  act.register_id = numbers.Small(*args, "register");
  const auto cause = args->find("cause");
  if (cause == args->end() || !cause->is_string() || !pb::Cause_Parse(cause->get<std::string>(), &act.cause)) {
    return absl::InvalidArgumentError("an act does not say its 'cause'");
  }
  if (numbers.missing() == nullptr) return act;
  return absl::InvalidArgumentError(absl::StrCat("an act has no number '", numbers.missing(), "'"));
}

// Collects acts while their events are parsed, and has the parser drop them.
class EventTaker {
 public:
  bool operator()(int depth, TraceJson::parse_event_t what, TraceJson& parsed) {
    if (what == TraceJson::parse_event_t::key && depth == 1) in_events_ = parsed == "traceEvents";
    if (!in_events_ || what != TraceJson::parse_event_t::object_end || depth != 2) return true;
    if (parsed.value("ph", TraceJson()) != "X") return false;
    absl::StatusOr<TracedAct> act = ActOf(parsed);
    if (act.ok()) {
      acts_.push_back(*act);
    } else if (error_.ok()) {
      error_ = act.status();
    }
    return false;
  }
  const absl::Status& error() const { return error_; }
  std::vector<TracedAct>& acts() { return acts_; }

 private:
  bool in_events_ = false;
  std::vector<TracedAct> acts_;
  absl::Status error_;
};

absl::StatusOr<Trace> ParseChromeTrace(absl::Span<const uint8_t> text) {
  EventTaker taker;
  const TraceJson json = TraceJson::parse(
      text.begin(), text.end(),
      [&taker](int depth, TraceJson::parse_event_t what, TraceJson& parsed) { return taker(depth, what, parsed); },
      /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("it is no JSON, or was cut off");
  if (!json.is_object() || !json.contains("oneflow")) {
    return absl::InvalidArgumentError("it is no trace of a job: it has no part 'oneflow'");
  }
  Trace trace;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json["oneflow"].dump(), &trace.head);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("its part 'oneflow': ", parsed.ToString()));
  OF_RETURN_IF_ERROR(CheckTraceHead(trace.head));
  OF_RETURN_IF_ERROR(taker.error());
  trace.acts = std::move(taker.acts());
  for (const TracedAct& act : trace.acts) OF_RETURN_IF_ERROR(CheckTracedAct(trace.head, act));
  SortActs(trace.acts);
  return trace;
}

}  // namespace

absl::StatusOr<Trace> ReadChromeTrace(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  OF_ASSIGN_OR_RETURN_AT(Trace trace, ParseChromeTrace(file.bytes()), absl::StrCat("trace '", path, "'"));
  return trace;
}

}  // namespace oneflow
