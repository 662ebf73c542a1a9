#include "tools/job/slots.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/slots.pb.h"
#include "tools/job/first_error.h"
#include "tools/job/read_text.h"

namespace oneflow {

absl::StatusOr<SlotsByName> ReadSlots(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("file of slots", path));
  pb::Slots given;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &given))
    return absl::InvalidArgumentError(absl::StrCat("slots '", path, "':", error.line(), ": ", error.message()));
  SlotsByName slots;
  for (const pb::PlanSlots& plan : given.plans()) {
    for (const pb::RegisterSlots& reg : plan.registers()) {
      if (slots[plan.name()].emplace(reg.name(), reg.slots()).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("slots '", path, "': plan '", plan.name(), "': register '", reg.name(), "' comes twice"));
    }
  }
  return slots;
}

std::string SlotsText(const SlotsByName& slots) {
  std::string text = "# Slots of registers: a job's field `slots` takes this file.\n";
  for (const auto& [plan, registers] : slots) {
    absl::StrAppend(&text, "plans {\n  name: \"", absl::CEscape(plan), "\"\n");
    for (const auto& [name, count] : registers)
      absl::StrAppend(&text, "  registers { name: \"", absl::CEscape(name), "\" slots: ", count, " }\n");
    absl::StrAppend(&text, "}\n");
  }
  return text;
}

}  // namespace oneflow
