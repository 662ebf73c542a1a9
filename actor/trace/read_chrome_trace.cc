#include <algorithm>
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

// The numbers of an act, first those that are times.
constexpr const char* kActNumbers[] = {"ts", "dur", "ready", "step", "act", "run", "plan", "actor", "register"};
constexpr size_t kActTimes = 3;

// Takes acts out of the events as they are parsed, and the head, a text, from behind them.
class EventReader : public nlohmann::json_sax<TraceJson> {
 public:
  const std::string& head() const { return head_; }
  std::vector<TracedAct>& acts() { return acts_; }
  const absl::Status& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override {
    return Number(static_cast<double>(value), value, /*is_integer=*/true);
  }
  bool number_unsigned(number_unsigned_t value) override {
    const int64_t known = static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
    return Number(static_cast<double>(value), known, /*is_integer=*/true);
  }
  bool number_float(number_float_t value, const string_t&) override { return Number(value, 0, /*is_integer=*/false); }
  bool string(string_t& value) override {
    if (depth_ == kTop && key_ == "oneflow") head_ = std::move(value);
    if (!in_events_) return true;
    if (depth_ == kEvent && key_ == "ph") is_act_ = value == "X";
    if (depth_ == kArgs && key_ == "cause") has_cause_ = pb::Cause_Parse(value, &cause_);
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == kTop) in_events_ = value == "traceEvents";
    key_.swap(value);
    return true;
  }
  bool start_object(size_t) override {
    if (++depth_ == kEvent) seen_ = 0, is_act_ = has_cause_ = false;
    return true;
  }
  bool end_object() override {
    if (in_events_ && depth_ == kEvent && is_act_) TakeAct();
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  enum Depth { kTop = 1, kEvents, kEvent, kArgs };

  bool Number(double value, int64_t integer, bool is_integer) {
    constexpr double kMostMicros = 1e15;  // beyond all that CheckTracedAct lets pass, less than what an integer holds
    if (!in_events_ || (depth_ != kEvent && depth_ != kArgs)) return true;
    const size_t i = std::find(std::begin(kActNumbers), std::end(kActNumbers), key_) - std::begin(kActNumbers);
    if (i == std::size(kActNumbers)) return true;
    const bool is_time = i < kActTimes;
    if (is_time ? std::abs(value) >= kMostMicros : !is_integer) return true;
    numbers_[i] = is_time ? std::llround(value * 1000) : integer;
    seen_ |= 1u << i;
    return true;
  }

  void TakeAct() {
    for (size_t i = 0; i < std::size(kActNumbers) && error_.ok(); ++i) {
      if ((seen_ >> i & 1) == 0) {
        error_ = absl::InvalidArgumentError(absl::StrCat("an act has no number '", kActNumbers[i], "'"));
      }
    }
    if (error_.ok() && !has_cause_) error_ = absl::InvalidArgumentError("an act does not say its 'cause'");
    if (!error_.ok()) return;
    const auto small = [](int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, -1, INT32_MAX)); };
    acts_.push_back({.ready_ns = numbers_[2],
                     .begin_ns = numbers_[0],
                     .end_ns = numbers_[0] + numbers_[1],
                     .step = numbers_[3],
                     .act = numbers_[4],
                     .run = small(numbers_[5]),
                     .plan = small(numbers_[6]),
                     .actor = small(numbers_[7]),
                     .register_id = small(numbers_[8]),
                     .cause = cause_});
  }

  int depth_ = 0;
  bool in_events_ = false;
  std::string key_;
  bool is_act_ = false, has_cause_ = false;  // of the event that is parsed
  pb::Cause cause_ = pb::START;
  unsigned seen_ = 0;  // bits, as kActNumbers
  int64_t numbers_[std::size(kActNumbers)] = {};
  std::vector<TracedAct> acts_;
  std::string head_;
  absl::Status error_;
};

absl::StatusOr<Trace> ParseChromeTrace(absl::Span<const uint8_t> text) {
  EventReader reader;
  if (!TraceJson::sax_parse(text.begin(), text.end(), &reader)) {
    return absl::InvalidArgumentError("it is no JSON, or was cut off");
  }
  if (reader.head().empty()) return absl::InvalidArgumentError("it is no trace of a job: it has no text 'oneflow'");
  Trace trace;
  const auto parsed = google::protobuf::util::JsonStringToMessage(reader.head(), &trace.head);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("its text 'oneflow': ", parsed.ToString()));
  OF_RETURN_IF_ERROR(CheckTraceHead(trace.head));
  OF_RETURN_IF_ERROR(reader.error());
  trace.acts = std::move(reader.acts());
  for (const TracedAct& act : trace.acts) OF_RETURN_IF_ERROR(CheckTracedAct(trace.head, act));
  SortActs(trace.acts);
  return trace;
}

}  // namespace

absl::StatusOr<Trace> ReadChromeTrace(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path, "trace"));
  OF_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, file.ReadAll());
  OF_ASSIGN_OR_RETURN_AT(Trace trace, ParseChromeTrace(bytes), absl::StrCat("trace '", path, "'"));
  return trace;
}

}  // namespace oneflow
