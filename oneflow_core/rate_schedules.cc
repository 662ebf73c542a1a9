#include "oneflow_core/rate_schedules.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/rate_schedule_table.h"

namespace oneflow {
namespace {

using Complaint = std::optional<FieldComplaint>;

std::string Quoted(const std::vector<std::string>& names, absl::string_view last) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == names.size() ? last : ", ", "'", names[i], "'");
  }
  return text;
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const RateScheduleKind& kind : RateScheduleKinds()) names.push_back(kind.name);
  return names;
}

// A whole number from 0 on, and its value.
Complaint CheckSteps(const AttrMap& fields, const std::string& field, int64_t least = 0) {
  const auto it = fields.items().find(field);
  if (it == fields.items().end()) return std::nullopt;
  if (!std::holds_alternative<int64_t>(it->second)) return FieldComplaint{field, "must be an integer"};
  const int64_t value = fields.Int(field);
  if (value >= least) return std::nullopt;
  return FieldComplaint{field, absl::StrCat("is ", value, " but must be at least ", least)};
}

Complaint CheckShare(const AttrMap& fields, const std::string& field) {
  const auto it = fields.items().find(field);
  if (it == fields.items().end()) return std::nullopt;
  if (!std::holds_alternative<double>(it->second) && !std::holds_alternative<int64_t>(it->second)) {
    return FieldComplaint{field, "must be a number"};
  }
  const double value = fields.Double(field);
  if (value >= 0 && value <= 1) return std::nullopt;
  return FieldComplaint{field, absl::StrCat("is ", value, " but must be in [0, 1]")};
}

Complaint CheckRanges(const AttrMap& fields) {
  for (const char* steps : {"warmup_steps", "steps", "decay_steps", "timescale_steps"}) {
    if (Complaint complaint = CheckSteps(fields, steps)) return complaint;
  }
  if (Complaint complaint = CheckSteps(fields, "cycle_growth", 1)) return complaint;
  for (const char* share : {"min_ratio", "start_ratio", "decay_share"}) {
    if (Complaint complaint = CheckShare(fields, share)) return complaint;
  }
  const std::string form = fields.String("decay_form");
  if (!form.empty() && std::count(DecayForms().begin(), DecayForms().end(), form) == 0) {
    return FieldComplaint{"decay_form", absl::StrCat("is '", form, "' but must be ", Quoted(DecayForms(), " or "))};
  }
  return std::nullopt;
}

Complaint CheckWsd(const AttrMap& fields) {
  const int64_t steps = fields.Int("steps"), warmup = fields.Int("warmup_steps"), decay = fields.Int("decay_steps");
  const double share = fields.Double("decay_share");
  if (steps == 0) return std::nullopt;  // nothing is trained
  if (decay > 0 && share > 0) {
    return FieldComplaint{"decay_share", absl::StrCat(share, " is given beside decay_steps, ", decay)};
  }
  const double lasts = share > 0 ? std::round(share * static_cast<double>(steps)) : static_cast<double>(decay);
  if (lasts > static_cast<double>(steps - std::min(warmup, steps))) {
    return FieldComplaint{
        share > 0 ? "decay_share" : "decay_steps",
        absl::StrCat("the decay takes ", lasts, " steps, but of ", steps, " steps ", warmup, " are the warm-up")};
  }
  return std::nullopt;
}

Complaint CheckOneCycle(const AttrMap& fields) {
  const int64_t steps = fields.Int("steps"), warmup = fields.Int("warmup_steps");
  if (warmup == 0) {
    return FieldComplaint{"warmup_steps",
                          "is missing: the rate of 'one_cycle' rises for so many steps (usually 0.3 of "
                          "all)"};
  }
  if (warmup < steps || steps == 0) return std::nullopt;
  return FieldComplaint{"warmup_steps",
                        absl::StrCat("is ", warmup, " but must be less than the cycle's steps, which are ", steps)};
}

Complaint CheckPiecewise(const AttrMap& fields) {
  const std::vector<int64_t> boundaries = fields.Ints("boundaries");
  const std::string factors = fields.String("factors");
  const std::vector<std::string> parts = absl::StrSplit(factors, ',', absl::SkipEmpty());
  if (boundaries.empty()) return FieldComplaint{"boundaries", "is missing: the steps at which the rate changes"};
  if (boundaries.size() > ONEFLOW_MOST_BOUNDARIES) {
    return FieldComplaint{"boundaries", absl::StrCat("has ", boundaries.size(), " steps, at most ",
                                                     ONEFLOW_MOST_BOUNDARIES, " are supported")};
  }
  if (parts.size() != boundaries.size()) {
    return FieldComplaint{"factors", absl::StrCat("has ", parts.size(), ", but there are ", boundaries.size(),
                                                  " boundaries; each has one")};
  }
  for (const std::string& part : parts) {
    double factor = 0;
    if (absl::SimpleAtod(part, &factor) && factor >= 0 && factor <= 1e30) continue;
    return FieldComplaint{"factors", absl::StrCat("'", part, "' is no finite number >= 0")};
  }
  for (size_t i = 0; i < boundaries.size(); ++i) {
    const int64_t before = i == 0 ? fields.Int("warmup_steps") : boundaries[i - 1] + 1;
    if (boundaries[i] >= before) continue;
    return FieldComplaint{
        "boundaries",
        absl::StrCat(boundaries[i], i == 0 ? " is within the warm-up, which ends at step " : " does not follow on ",
                     i == 0 ? before : boundaries[i - 1])};
  }
  return std::nullopt;
}

Complaint CheckRestarts(const AttrMap& fields) {
  if (fields.Int("cycle_steps") == 0) return FieldComplaint{"cycle_steps", "is missing: the steps of the first cycle"};
  return CheckSteps(fields, "cycle_steps", 1);
}

}  // namespace

bool RateScheduleKind::Reads(absl::string_view field) const {
  return field == "learning_rate" || field == "kind" || field == "warmup_steps" ||
         std::find(reads.begin(), reads.end(), field) != reads.end();
}

const std::vector<RateScheduleKind>& RateScheduleKinds() {
#define OF_SCHEDULE_ROW(Name, name, reads, ...) {name, absl::StrSplit(reads, ' ', absl::SkipEmpty())},
  static const auto* const kinds = new std::vector<RateScheduleKind>{ONEFLOW_RATE_SCHEDULES(OF_SCHEDULE_ROW)};
#undef OF_SCHEDULE_ROW
  return *kinds;
}

const RateScheduleKind* FindRateSchedule(absl::string_view name) {
  for (const RateScheduleKind& kind : RateScheduleKinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

const std::vector<std::string>& DecayForms() {
#define OF_FORM_ROW(Name, name, f) name,
  static const auto* const forms = new std::vector<std::string>{ONEFLOW_DECAY_FORMS(OF_FORM_ROW)};
#undef OF_FORM_ROW
  return *forms;
}

std::string NotRead(const RateScheduleKind& kind, absl::string_view field) {
  std::vector<std::string> others;
  for (const RateScheduleKind& other : RateScheduleKinds()) {
    if (other.Reads(field)) others.push_back(other.name);
  }
  const std::string do_read =
      others.empty() ? "" : absl::StrCat(", but ", Quoted(others, " and "), others.size() == 1 ? " does" : " do");
  return absl::StrCat("schedule '", kind.name, "' does not read it", do_read);
}

std::optional<FieldComplaint> CheckRateSchedule(const AttrMap& fields) {
  const std::string name = fields.String("kind");
  const RateScheduleKind* const kind = FindRateSchedule(name);
  if (kind == nullptr) {
    return FieldComplaint{"kind", absl::StrCat("is '", name, "' but must be ", Quoted(Names(), " or "))};
  }
  for (const auto& [field, value] : fields.items()) {
    if (!kind->Reads(field)) return FieldComplaint{field, NotRead(*kind, field)};
  }
  if (Complaint complaint = CheckRanges(fields)) return complaint;
  if (name == "wsd") return CheckWsd(fields);
  if (name == "one_cycle") return CheckOneCycle(fields);
  if (name == "piecewise") return CheckPiecewise(fields);
  if (name == "restarts") return CheckRestarts(fields);
  return std::nullopt;
}

}  // namespace oneflow
