#include "test/fuzz/mutator.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

namespace oneflow::testing {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// Texts that have gone wrong in other programs.
const char* const kTexts[] = {"", "/", "..", "%s%n", "-1", "nan", "1e999", "{", "\"", "a/b", "f32[]"};

}  // namespace

void Mutator::EditBytes(std::string& bytes, size_t most) {
  for (size_t edits = 1 + Below(4); edits > 0; --edits) {
    const size_t at = Below(bytes.size() + 1), length = std::min(1 + Below(16), bytes.size() - at);
    switch (Below(6)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(Below(256));
        break;
      case 2:
        bytes.insert(at, 1 + Below(4), static_cast<char>(Below(256)));
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(Below(bytes.size() + 1), bytes.substr(at, length));
        break;
      default:
        if (OneIn(8)) bytes.resize(at);
    }
  }
  if (bytes.size() > most) bytes.resize(most);
}

template <typename Number>
Number Mutator::OtherNumber(Number old) {
  using Limits = std::numeric_limits<Number>;
  const Number near = static_cast<Number>(Below(16));
  switch (Below(8)) {
    case 0:
      return near;
    case 1:
      return old > Limits::lowest() + near ? old - near : old;
    case 2:
      return old < Limits::max() - near ? old + near : old;
    case 3:
      return Limits::lowest();
    case 4:
      return Limits::max();
    case 5:
      return old / 2;
    case 6:
      return old > Limits::max() / 3 ? old : old * 2;
    default:
      if constexpr (Limits::has_quiet_NaN) return OneIn(2) ? Limits::quiet_NaN() : Limits::infinity();
      return static_cast<Number>(uint64_t{1} << Below(8 * sizeof(Number)));
  }
}

// Of 7 bits where the field is text: others would not parse, whatever else is in the message.
std::string Mutator::OtherText(std::string old, bool is_text) {
  if (OneIn(3)) {
    old = kTexts[Below(std::size(kTexts))];
  } else {
    EditBytes(old, old.size() + 64);
  }
  for (char& c : old) c = is_text ? static_cast<char>(c & 0x7f) : c;
  return old;
}

// The message or one inside of it.
google::protobuf::Message* Mutator::SomePart(google::protobuf::Message& message) {
  google::protobuf::Message* part = &message;
  while (!OneIn(4)) {
    std::vector<const FieldDescriptor*> fields;
    part->GetReflection()->ListFields(*part, &fields);
    std::erase_if(fields, [](const FieldDescriptor* f) { return f->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE; });
    if (fields.empty()) break;
    const FieldDescriptor* const field = fields[Below(fields.size())];
    const Reflection& of = *part->GetReflection();
    part = field->is_repeated() ? of.MutableRepeatedMessage(part, field, Below(of.FieldSize(*part, field)))
                                : of.MutableMessage(part, field);
  }
  return part;
}

void Mutator::SetNumber(google::protobuf::Message& part, const FieldDescriptor& field, int index) {
  const Reflection& of = *part.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
#define NUMBER(TYPE, NAME)                                                                                \
  case FieldDescriptor::CPPTYPE_##TYPE:                                                                   \
    if (repeated) {                                                                                       \
      of.SetRepeated##NAME(&part, &field, index, OtherNumber(of.GetRepeated##NAME(part, &field, index))); \
    } else {                                                                                              \
      of.Set##NAME(&part, &field, OtherNumber(of.Get##NAME(part, &field)));                               \
    }                                                                                                     \
    break;
    NUMBER(INT32, Int32)
    NUMBER(INT64, Int64)
    NUMBER(UINT32, UInt32)
    NUMBER(UINT64, UInt64)
    NUMBER(FLOAT, Float)
    NUMBER(DOUBLE, Double)
#undef NUMBER
    case FieldDescriptor::CPPTYPE_BOOL:
      if (repeated) {
        of.SetRepeatedBool(&part, &field, index, OneIn(2));
      } else {
        of.SetBool(&part, &field, OneIn(2));
      }
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = OneIn(4) ? static_cast<int>(Below(1000)) : static_cast<int>(Below(8));
      if (repeated) {
        of.SetRepeatedEnumValue(&part, &field, index, value);
      } else {
        of.SetEnumValue(&part, &field, value);
      }
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const bool is_text = field.type() == FieldDescriptor::TYPE_STRING;
      if (repeated) {
        of.SetRepeatedString(&part, &field, index, OtherText(of.GetRepeatedString(part, &field, index), is_text));
      } else {
        of.SetString(&part, &field, OtherText(of.GetString(part, &field), is_text));
      }
      break;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

void Mutator::EditOne(google::protobuf::Message& part, const FieldDescriptor& field) {
  const Reflection& of = *part.GetReflection();
  if (OneIn(5)) return of.ClearField(&part, &field);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return SetNumber(part, field, 0);
  EditPart(*of.MutableMessage(&part, &field));
}

void Mutator::EditRepeated(google::protobuf::Message& part, const FieldDescriptor& field) {
  const Reflection& of = *part.GetReflection();
  const int size = of.FieldSize(part, &field);
  const bool messages = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  const size_t what = size == 0 ? 3 : Below(4);
  if (what == 0) return of.RemoveLast(&part, &field);
  if (what == 1) return of.SwapElements(&part, &field, Below(size), Below(size));
  if (what == 2) {
    if (messages) return EditPart(*of.MutableRepeatedMessage(&part, &field, Below(size)));
    return SetNumber(part, field, Below(size));
  }
  if (messages) {
    google::protobuf::Message* const added = of.AddMessage(&part, &field);
    if (size > 0) added->CopyFrom(of.GetRepeatedMessage(part, &field, Below(size)));
    return;
  }
  // There is no way to add a number whatever its type: two messages are put together, the other one with one element.
  std::string one;
  part.SerializeToString(&one);
  if (size > 0 && one.size() < 4096) part.MergeFromString(one);
}

void Mutator::EditPart(google::protobuf::Message& part) {
  const Descriptor& type = *part.GetDescriptor();
  if (type.field_count() == 0) return;
  std::vector<const FieldDescriptor*> set;
  part.GetReflection()->ListFields(part, &set);
  const FieldDescriptor& field =
      set.empty() || OneIn(3) ? *type.field(Below(type.field_count())) : *set[Below(set.size())];
  field.is_repeated() ? EditRepeated(part, field) : EditOne(part, field);
}

bool Mutator::Transplant(google::protobuf::Message& message, const google::protobuf::Message& donor) {
  google::protobuf::Message* const to = SomePart(message);
  const std::unique_ptr<google::protobuf::Message> copy(donor.New());
  copy->CopyFrom(donor);
  for (int tries = 0; tries < 8; ++tries) {
    const google::protobuf::Message* const from = SomePart(*copy);
    if (from->GetDescriptor() != to->GetDescriptor()) continue;
    to->CopyFrom(*from);
    return true;
  }
  return false;
}

void Mutator::EditMessage(google::protobuf::Message& message,
                          absl::FunctionRef<const google::protobuf::Message&()> donor) {
  for (size_t edits = 1 + Below(4); edits > 0; --edits) {
    if (!OneIn(8) || !Transplant(message, donor())) EditPart(*SomePart(message));
  }
}

}  // namespace oneflow::testing
