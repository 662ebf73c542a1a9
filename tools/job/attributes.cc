#include "tools/job/attributes.h"

#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "oneflow_core/text_list.h"
#include "tools/job/custom.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

void SetList(const google::protobuf::Message& message, const FieldDescriptor& field, AttrMap& attributes) {
  const Reflection& r = *message.GetReflection();
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  for (int i = 0; i < r.FieldSize(message, &field); ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      texts.push_back(r.GetRepeatedString(message, &field, i));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      numbers.push_back(r.GetRepeatedInt64(message, &field, i));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      numbers.push_back(r.GetRepeatedInt32(message, &field, i));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      texts.push_back(ShortestText(r.GetRepeatedDouble(message, &field, i)));
    }
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    attributes.Set(field.name(), JoinTexts(texts));
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    attributes.Set(field.name(), absl::StrJoin(texts, ","));
  } else {
    attributes.Set(field.name(), numbers);
  }
}

void SetOne(const google::protobuf::Message& message, const FieldDescriptor& field, AttrMap& attributes) {
  const Reflection& r = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return attributes.Set(field.name(), r.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return attributes.Set(field.name(), r.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_INT32:
      return attributes.Set(field.name(), int64_t{r.GetInt32(message, &field)});
    case FieldDescriptor::CPPTYPE_INT64:
      return attributes.Set(field.name(), r.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return attributes.Set(field.name(), r.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return attributes.Set(field.name(), r.GetEnum(message, &field)->name());
    default:
      return;
  }
}

}  // namespace

std::string ShortestText(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

const FieldDescriptor* KindOf(const google::protobuf::Message& message) {
  const google::protobuf::OneofDescriptor* const kinds = message.GetDescriptor()->FindOneofByName("kind");
  return message.GetReflection()->GetOneofFieldDescriptor(message, kinds);
}

std::string KindNameOf(const google::protobuf::Message& message) {
  const FieldDescriptor* const kind = KindOf(message);
  if (kind == nullptr) return "";
  const pb::Custom* const custom = CustomOf(message);
  return custom == nullptr ? kind->name() : custom->name();
}

AttrMap AttributesOf(const google::protobuf::Message& message) {
  const std::unique_ptr<google::protobuf::Message> whole(message.New());
  whole->CopyFrom(message);
  FillDefaults(*whole);
  AttrMap attributes;
  for (int f = 0; f < whole->GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor& field = *whole->GetDescriptor()->field(f);
    if (field.message_type() != nullptr) continue;
    if (field.is_repeated()) {
      SetList(*whole, field, attributes);
    } else if (!field.has_presence() || whole->GetReflection()->HasField(*whole, &field)) {
      SetOne(*whole, field, attributes);
    }
  }
  return attributes;
}

AttrMap AttributesOfKind(const google::protobuf::Message& message) {
  const FieldDescriptor* const kind = KindOf(message);
  if (kind == nullptr || kind->message_type() == nullptr) return AttrMap();
  if (CustomOf(message) != nullptr) return CustomFields(message).value_or(AttrMap());
  return AttributesOf(message.GetReflection()->GetMessage(message, kind));
}

}  // namespace oneflow
