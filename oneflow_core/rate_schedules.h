// What the rows of rate_schedule_table.h say of the fields of a schedule, for type inference and for jobs. The fields
// are the attributes of the op lr_schedule and have the names of the message Schedule (proto/job.proto):
//
//   learning_rate, kind, warmup_steps    of every schedule
//   all others                           only of the schedules that read them
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/models/config.h"

namespace oneflow {

struct RateScheduleKind {
  std::string name;
  std::vector<std::string> reads;  // beside learning_rate, kind and warmup_steps

  bool Reads(absl::string_view field) const;
};

// In the order in which errors list them; the first is a job's that names none.
const std::vector<RateScheduleKind>& RateScheduleKinds();
// Null if there is none of that name.
const RateScheduleKind* FindRateSchedule(absl::string_view name);
// The forms of a decay, in the order in which errors list them.
const std::vector<std::string>& DecayForms();

// "schedule 'constant' does not read it, but 'cosine' and 'linear' do".
std::string NotRead(const RateScheduleKind& kind, absl::string_view field);

// What is wrong with the fields of a schedule: one that its kind does not read, a value out of range, or values that do
// not fit together.
std::optional<FieldComplaint> CheckRateSchedule(const AttrMap& fields);

}  // namespace oneflow
