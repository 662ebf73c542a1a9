#include "tools/page/job_history.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/code_choices.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr size_t kMostCurves = 32;
constexpr size_t kMostTold = 200;
constexpr size_t kMostText = 64 << 10;  // that is generated
constexpr size_t kMostWords = 8 << 10;  // of an event
constexpr char kStepsOf[] = "train";
constexpr char kSeconds[] = "step seconds";

// The last point that the reader has may have grown since.
size_t FirstUnknown(const nlohmann::json& known, const std::string& name, const Curve& curve) {
  const auto found = known.find(name);
  if (found == known.end() || !found->is_array() || found->size() != 2) return 0;
  const nlohmann::json &generation = (*found)[0], &count = (*found)[1];
  if (!generation.is_number_integer() || !count.is_number_unsigned() || generation != curve.generation()) return 0;
  const size_t had = std::min(count.get<size_t>(), curve.points().size());
  return had > 0 ? had - 1 : 0;
}

nlohmann::json CurveJson(const Curve& curve, size_t from) {
  nlohmann::json points = nlohmann::json::array();
  for (size_t i = from; i < curve.points().size(); ++i) {
    const Curve::Point& point = curve.points()[i];
    const int64_t step = point.index * curve.stride() + 1;  // people count steps from 1
    if (point.count == 0) {
      points.push_back({step, nullptr, nullptr, nullptr});
    } else {
      points.push_back({step, point.sum / static_cast<double>(point.count), point.least, point.most});
    }
  }
  return {{"generation", curve.generation()},
          {"from", from},
          {"last", std::isfinite(curve.last()) ? nlohmann::json(curve.last()) : nlohmann::json()},
          {"points", std::move(points)}};
}

}  // namespace

void JobHistory::Add(const pb::JobEvent& event) {
  next_ = event.sequence() + 1;
  switch (event.kind_case()) {
    case pb::JobEvent::kState:
      return OnState(event.time_us(), event.state());
    case pb::JobEvent::kFetched:
      return OnFetched(event.time_us(), event.fetched());
    case pb::JobEvent::kPhaseDone:
      return OnPhaseDone(event.time_us(), event.phase_done());
    case pb::JobEvent::kNotice:
      return Tell(event.time_us(), "notice", event.notice().text());
    case pb::JobEvent::kStall:
      return Tell(event.time_us(), "stall", event.stall().text());
    case pb::JobEvent::kStats:
    case pb::JobEvent::KIND_NOT_SET:
      return;
  }
}

void JobHistory::OnState(int64_t time_us, const pb::StateChange& state) {
  const std::string name = pb::JobState_Name(state.state());
  Tell(time_us, "state", state.message().empty() ? name : absl::StrCat(name, ": ", state.message()));
  OnTimed(clock_.Stop());
  sums_.clear();
  if (state.state() == pb::QUEUED) generated_.clear();  // another attempt
}

void JobHistory::OnFetched(int64_t time_us, const pb::FetchedValue& value) {
  if (value.plan() == "generate") {
    for (const double token : value.values()) {
      if (generated_.size() < kMostText) generated_ += static_cast<char>(static_cast<int>(token));
    }
  } else if (value.plan() == kChoicePlan) {
    if (Curve* const curve = CurveOf(absl::StrCat("codes/", value.name()))) curve->Add(value.step(), value.values(0));
  } else if (value.plan() != kStepsOf) {
    sums_[value.plan()][value.name()].Add(value);
  } else if (value.values_size() == 1) {
    if (step_name_.empty()) step_name_ = value.name();
    const std::string name = absl::StrCat(kStepsOf, "/", value.name());
    if (value.name() == step_name_) {
      if (value.step() < steps_) {  // an attempt that goes on from a checkpoint
        for (auto& [of, curve] : curves_) curve.CutFrom(value.step());
      }
      OnTimed(clock_.Tick(value.step(), time_us));
      steps_ = value.step() + 1;
    }
    if (Curve* const curve = CurveOf(name)) curve->Add(value.step(), value.values(0));
  }
}

void JobHistory::OnPhaseDone(int64_t time_us, const pb::PhaseDone& done) {
  OnTimed(clock_.Stop());
  for (const auto& [plan, names] : std::exchange(sums_, {})) {
    for (const auto& [name, total] : names) {
      const std::string of = absl::StrCat(plan == "evaluate" ? "validation" : plan, "/", name);
      if (Curve* const curve = CurveOf(of)) {
        curve->Add(std::max<int64_t>(steps_ - 1, 0), total.mean());
      }
    }
  }
  if (done.done().has_save()) Tell(time_us, "file", absl::StrCat("wrote ", done.done().save().path()));
  if (done.done().has_trace()) Tell(time_us, "file", absl::StrCat("wrote ", done.done().trace().path()));
}

void JobHistory::OnTimed(const std::optional<StepClock::Span>& span) {
  if (span) CurveOf(kSeconds)->Add(span->last, span->seconds);
}

void JobHistory::Tell(int64_t time_us, const char* kind, const std::string& text) {
  told_.push_back({time_us, kind, text.substr(0, kMostWords)});
  if (told_.size() > kMostTold) told_.pop_front();
}

Curve* JobHistory::CurveOf(const std::string& name) {
  if (curves_.size() >= kMostCurves && !curves_.contains(name) && name != kSeconds) return nullptr;
  return &curves_[name];
}

nlohmann::json JobHistory::Json(const nlohmann::json& known) const {
  nlohmann::json curves = nlohmann::json::object();
  for (const auto& [name, curve] : curves_) curves[name] = CurveJson(curve, FirstUnknown(known, name, curve));
  nlohmann::json events = nlohmann::json::array();
  for (const Told& told : told_) {
    events.push_back({{"time_us", told.time_us}, {"kind", told.kind}, {"text", VisibleText(told.text)}});
  }
  return {{"steps", steps_},
          {"curves", std::move(curves)},
          {"events", std::move(events)},
          {"generated", VisibleText(generated_)}};
}

}  // namespace oneflow
