#include "tools/job/optimizer.h"

#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "tools/job/attributes.h"

namespace oneflow {

OptimizerOptions OptimizerOf(const pb::Optimizer& optimizer) {
  OptimizerOptions options;
  options.clip_norm = optimizer.clip_norm();
  const google::protobuf::FieldDescriptor* const kind = KindOf(optimizer);
  if (kind == nullptr) return options;
  options.rule = kind->name();
  const google::protobuf::Message& rule = optimizer.GetReflection()->GetMessage(optimizer, kind);
  const google::protobuf::Reflection& fields = *rule.GetReflection();
  for (int i = 0; i < kind->message_type()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = kind->message_type()->field(i);
    if (field->name() == "weight_decay") {
      options.weight_decay = fields.GetDouble(rule, field);
    } else if (field->has_presence() && !fields.HasField(rule, field)) {
      continue;
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL) {
      options.attributes.Set(field->name(), fields.GetBool(rule, field));
    } else {
      options.attributes.Set(field->name(), fields.GetDouble(rule, field));
    }
  }
  return options;
}

}  // namespace oneflow
