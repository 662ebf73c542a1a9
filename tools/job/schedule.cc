#include "tools/job/schedule.h"

#include <string>

#include "google/protobuf/descriptor.h"
#include "oneflow_core/rate_schedules.h"
#include "tools/job/attributes.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;

const RateScheduleKind& KindOfSchedule(const pb::Schedule& schedule) {
  const RateScheduleKind* const kind = FindRateSchedule(WithDefaults(schedule).kind());
  return kind == nullptr ? RateScheduleKinds()[0] : *kind;
}

// The fields that the job gives, and the horizon.
AttrMap Fields(const pb::Train& train) {
  const pb::Schedule& schedule = train.schedule();
  const RateScheduleKind& kind = KindOfSchedule(schedule);
  std::vector<const FieldDescriptor*> given;
  schedule.GetReflection()->ListFields(schedule, &given);
  const AttrMap all = AttributesOf(schedule);
  AttrMap fields;
  for (const FieldDescriptor* field : given) fields.Set(field->name(), all.items().at(field->name()));
  if (kind.Reads("steps") && !fields.Has("steps")) fields.Set("steps", train.steps());
  fields.Set("kind", kind.name);
  return fields;
}

}  // namespace

std::optional<FieldComplaint> CheckSchedule(const pb::Train& train) { return CheckRateSchedule(Fields(train)); }

ScheduleOptions ScheduleOf(const pb::Train& train) {
  ScheduleOptions options;
  options.learning_rate = train.schedule().learning_rate();
  options.kind = KindOfSchedule(train.schedule()).name;
  const AttrMap fields = Fields(train);
  for (const auto& [name, value] : fields.items()) {
    if (name != "learning_rate" && name != "kind") options.fields.Set(name, value);
  }
  return options;
}

bool RateNeedsSteps(const pb::Train& train) {
  return train.schedule().steps() == 0 && KindOfSchedule(train.schedule()).Reads("steps");
}

}  // namespace oneflow
