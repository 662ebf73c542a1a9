#include "tools/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/code_choices.h"
#include "proto/plan.pb.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr int64_t kPrintEveryUs = 5'000'000;   // without a terminal
constexpr int64_t kTerminalEveryUs = 100'000;  // in place: as often as an eye follows
constexpr size_t kSpeedWindow = 20;            // steps averaged for the displayed speed

// JSON has no inf or nan.
std::string Json(double value, int digits) {
  return std::isfinite(value) ? absl::StrFormat("%.*g", digits, value) : "null";
}

// A NaN without the sign that it may have.
std::string NumberText(const char* format, double value) {
  if (std::isnan(value)) return "nan";
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string SpeedText(double per_s) {
  if (per_s >= 1e6) return absl::StrFormat("%.2fM", per_s / 1e6);
  return per_s >= 1e3 ? absl::StrFormat("%.1fk", per_s / 1e3) : absl::StrFormat("%.1f", per_s);
}

std::string Duration(double seconds) {
  const int64_t s = static_cast<int64_t>(std::llround(seconds));
  if (s >= 3600) return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  return absl::StrFormat("%d:%02d", s / 60, s % 60);
}

size_t NumFetched(const pb::ClassPlan& plan) {
  size_t count = 0;
  for (const pb::ClassActor& actor : plan.actors()) {
    for (const pb::ClassInstruction& instruction : actor.instructions()) count += instruction.op() == "fetch";
  }
  return count;
}

constexpr size_t kMostCodesShown = 8;

}  // namespace

Progress::Progress(const pb::JobSpec& spec, const pb::PlanSet& plan, Options options)
    : spec_(spec), options_(std::move(options)), sizes_(spec) {
  for (const pb::ClassPlan& one : plan.plans()) {
    if (one.name() == kChoicePlan) num_codes_ = NumFetched(one);
    if (one.name() != "train") continue;
    for (const pb::ClassActor& actor : one.actors()) {
      for (const pb::ClassInstruction& instruction : actor.instructions()) {
        if (instruction.op() != "fetch") continue;
        for (const pb::Attribute& attribute : instruction.attributes()) {
          if (attribute.name() == "name") train_names_.insert(attribute.s());
        }
      }
    }
  }
  for (const pb::Phase& phase : spec_.phases()) {
    if (phase.run().plan() == "train") total_steps_ += phase.run().steps();
    total_steps_ += phase.train().steps();
  }
}

void Progress::OnEvent(const pb::JobEvent& event) {
  switch (event.kind_case()) {
    case pb::JobEvent::kFetched:
      return OnFetched(event.time_us(), event.fetched());
    case pb::JobEvent::kPhaseDone:
      return OnPhaseDone(event.time_us(), event.phase_done());
    case pb::JobEvent::kState:
      return OnState(event.time_us(), event.state());
    case pb::JobEvent::kNotice:
      return PrintLine(event.notice().text());
    case pb::JobEvent::kStall:
      return PrintLine(std::string(absl::StripSuffix(event.stall().text(), "\n")));
    case pb::JobEvent::kStats:
    case pb::JobEvent::KIND_NOT_SET:
      return;
  }
}

void Progress::OnState(int64_t time_us, const pb::StateChange& state) {
  if (state.state() == pb::RUNNING) times_us_.assign(1, time_us);  // the first step's time counts from here
  if (state.state() != pb::QUEUED || state.message().empty()) return;
  // Another attempt: what this one had only begun to say is not said to its end.
  WritePending();
  partial_.clear();
  codes_.clear();
  evaluating_.clear();
  generated_.clear();
  PrintLine(state.message());
}

void Progress::OnFetched(int64_t time_us, const pb::FetchedValue& value) {
  if (value.plan() == "train") {
    if (value.values_size() != 1) return;
    Step& step = partial_[value.step()];
    step.step = value.step();
    step.values[value.name()] = value.values(0);
    if (step.values.size() < train_names_.size()) return;
    Step complete = std::move(step);
    partial_.erase(value.step());
    OnTrained(time_us, std::move(complete));
  } else if (value.plan() == "generate") {
    for (const double token : value.values()) generated_ += static_cast<char>(static_cast<int>(token));
  } else if (value.plan() == kChoicePlan) {
    codes_step_ = value.step() + 1;
    codes_[value.name()] = static_cast<int64_t>(value.values(0));
    if (codes_.size() == num_codes_) PrintCodes();
  } else {
    evaluating_[value.name()].Add(value);
  }
}

void Progress::PrintCodes() {
  std::vector<std::string> pairs, fields;
  for (const auto& [name, count] : codes_) {
    if (pairs.size() < kMostCodesShown) pairs.push_back(absl::StrCat(name, " ", count));
    fields.push_back(absl::StrCat("\"", name, "\": ", count));
  }
  if (codes_.size() > pairs.size()) pairs.push_back(absl::StrCat("and ", codes_.size() - pairs.size(), " more"));
  PrintLine(absl::StrCat("codes after step ", codes_step_, ": ", absl::StrJoin(pairs, ", ")));
  if (options_.metrics_line) {
    WritePending();
    options_.metrics_line(
        absl::StrCat("{\"step\": ", codes_step_, ", \"codes\": {", absl::StrJoin(fields, ", "), "}}"));
  }
  codes_.clear();
}

void Progress::OnTrained(int64_t time_us, Step step) {
  const double seconds = times_us_.empty() ? 0 : static_cast<double>(time_us - times_us_.back()) * 1e-6;
  const double samples = static_cast<double>(sizes_.StageOf(step.step).size.samples);
  step.samples_per_s = seconds > 0 ? samples / seconds : 0;
  times_us_.push_back(time_us);
  if (times_us_.size() > kSpeedWindow + 1) times_us_.pop_front();
  WritePending();
  pending_ = step;
  has_pending_ = true;
  ++trained_;
  if (const auto it = step.values.find("skipped"); it != step.values.end() && it->second != 0) {
    ++skipped_;
    return PrintSkipped(step);
  }
  PrintStep(time_us, step, step.step == 0 || step.step + 1 == total_steps_);
}

std::string Progress::StepText(const Step& step) const {
  std::string line =
      absl::StrFormat("step %*d/%d", static_cast<int>(absl::StrCat(total_steps_).size()), step.step + 1, total_steps_);
  for (const char* name : {"loss", "lr"}) {
    if (const auto it = step.values.find(name); it != step.values.end())
      absl::StrAppend(&line, "  ", name, " ", NumberText("%.5g", it->second));
  }
  return line;
}

// On a line of its own: it is not to be overwritten by the next step's.
void Progress::PrintSkipped(const Step& step) {
  std::string line = absl::StrCat(StepText(step), "  skipped: gradients overflow");
  if (const auto it = step.values.find("loss_scale"); it != step.values.end()) {
    absl::StrAppendFormat(&line, " at loss scale %.9g", it->second);
  }
  options_.print(absl::StrCat(options_.terminal ? "\r\x1b[K" : "", line, "\n"));
  line_open_ = false;
}

void Progress::PrintStep(int64_t time_us, const Step& step, bool force) {
  if (!force && time_us - printed_us_ < (options_.terminal ? kTerminalEveryUs : kPrintEveryUs)) return;
  printed_us_ = time_us;
  const double span = static_cast<double>(times_us_.back() - times_us_.front()) * 1e-6;
  const double per_step = times_us_.size() > 1 ? span / static_cast<double>(times_us_.size() - 1) : 0;
  const double samples = static_cast<double>(sizes_.StageOf(step.step).size.samples);
  const double speed = per_step > 0 ? samples / per_step : 0;
  std::string line = StepText(step);
  absl::StrAppend(&line, "  ", SpeedText(speed), " ", spec_.sample_unit(), "/s");
  if (step.step + 1 < total_steps_) {
    absl::StrAppend(&line, "  ETA ", Duration(per_step * static_cast<double>(total_steps_ - step.step - 1)));
  }
  if (options_.terminal) {
    options_.print(absl::StrCat("\r\x1b[K", line));
    line_open_ = true;
  } else {
    options_.print(absl::StrCat(line, "\n"));
  }
}

void Progress::OnPhaseDone(int64_t time_us, const pb::PhaseDone& done) {
  const pb::Phase& phase = done.done();
  // What was not training does not count as a step's time: the next step's begins here.
  if (phase.run().plan() != "train") times_us_.assign(1, time_us);
  if (line_open_) options_.print("\n");
  line_open_ = false;
  if (phase.has_save()) options_.print(absl::StrCat("wrote ", phase.save().path(), "\n"));
  if (phase.has_trace()) options_.print(absl::StrCat("wrote ", phase.trace().path(), "\n"));
  if (evaluating_.empty() || phase.run().plan() == "train") return;
  evaluation_.clear();
  const int64_t batches = phase.run().steps() + (phase.run().rest_plan().empty() ? 0 : 1);
  std::string line = "validation";
  for (const auto& [name, total] : evaluating_) {
    evaluation_[name] = total.mean();
    absl::StrAppend(&line, " ", name, " ", NumberText("%.4f", evaluation_[name]), " ");
    if (has_pending_) pending_.values[absl::StrCat("validation_", name)] = evaluation_[name];
  }
  if (has_pending_) absl::StrAppend(&line, "after step ", pending_.step + 1);
  options_.print(absl::StrCat(line, " (", batches, batches == 1 ? " batch)\n" : " batches)\n"));
  evaluating_.clear();
}

void Progress::PrintLine(const std::string& text) {
  options_.print(absl::StrCat(line_open_ ? "\n" : "", text, "\n"));
  line_open_ = false;
}

void Progress::WritePending() {
  if (has_pending_ && options_.metrics_line) {
    std::string json = absl::StrCat("{\"step\": ", pending_.step + 1);
    for (const auto& [name, value] : pending_.values) absl::StrAppend(&json, ", \"", name, "\": ", Json(value, 9));
    absl::StrAppend(&json, ", \"", spec_.sample_unit(), "_per_s\": ", Json(pending_.samples_per_s, 6), "}");
    options_.metrics_line(json);
  }
  has_pending_ = false;
}

void Progress::Finish() {
  if (line_open_) options_.print("\n");
  line_open_ = false;
  WritePending();
  if (skipped_ > 0) {
    options_.print(absl::StrCat("skipped ", skipped_, " of ", trained_, " steps, whose gradients overflowed\n"));
  }
  if (generated_.empty()) return;
  const std::string text = options_.prompt + generated_;
  options_.print(absl::StrCat("generated:\n", options_.terminal ? VisibleText(text) : text, "\n"));
}

}  // namespace oneflow
