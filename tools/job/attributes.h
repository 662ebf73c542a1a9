// Messages of a config as attributes, for rooms that do not see protobuf: models and kinds of data.
#pragma once

#include <string>

#include "google/protobuf/message.h"
#include "oneflow_core/attr.h"

namespace oneflow {

// The field of a message's oneof `kind` that is set: of Model "gpt", of Data "text". Null: none is.
const google::protobuf::FieldDescriptor* KindOf(const google::protobuf::Message& message);

// Its name; of a plugin's, which `custom` names, that. "" if none is set.
std::string KindNameOf(const google::protobuf::Message& message);

// The fields of a message by name, with declared defaults for those that say nothing; an `optional` field that says
// nothing and has no default is left out, and so are inner messages. Lists of texts are as JoinTexts() writes them
// (oneflow_core/text_list.h), lists of fractions are a text with commas between them: "0.1,0.01".
AttrMap AttributesOf(const google::protobuf::Message& message);
// Of the message that is of KindOf() `message`; no attributes if there is none, or it is no message. Of a plugin's the
// fields that it describes; REQUIRES then: CheckCustom (custom.h) found nothing.
AttrMap AttributesOfKind(const google::protobuf::Message& message);

// The shortest text that is read as exactly this number.
std::string ShortestText(double value);

}  // namespace oneflow
