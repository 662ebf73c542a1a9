#include "compiler/plan/given_slots.h"

#include <algorithm>
#include <cstdint>

namespace oneflow {
namespace {

// Far more than any act runs ahead.
constexpr int kMostSlots = 1 << 16;

absl::Status GiveOne(const std::string& name, int slots, PhysicalPlan& plan) {
  const auto is_it = [&](const PhysicalRegister& reg) { return reg.name == name; };
  const auto reg = std::find_if(plan.registers.begin(), plan.registers.end(), is_it);
  const auto wrong = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("slots of register '", name, "': ", what...));
  };
  if (reg == plan.registers.end()) return wrong("there is no such register in plan '", plan.name, "'");
  if (std::find_if(reg + 1, plan.registers.end(), is_it) != plan.registers.end())
    return wrong("plan '", plan.name, "' has several of that name");
  if (slots < 1 || slots > kMostSlots) return wrong(slots, " is not in [1, ", kMostSlots, "]");
  if ((reg->variable >= 0 || reg->initially_filled > 0) && slots != reg->slots)
    return wrong(slots, " are given, but it holds the state of a variable and has ", reg->slots);
  if (reg->slot_stride > INT64_MAX / slots) return wrong(slots, " of ", reg->slot_stride, " bytes cannot be counted");
  reg->slots = slots;
  return absl::OkStatus();
}

}  // namespace

absl::Status GiveSlots(const std::map<std::string, int>& slots, PhysicalPlan& plan) {
  for (const auto& [name, count] : slots) OF_RETURN_IF_ERROR(GiveOne(name, count, plan));
  return absl::OkStatus();
}

}  // namespace oneflow
