// What an actor says in every form of a plan: of a class of actors, of one actor, packed for the network, folded for
// the simulator. A field that all of them have is named here alone.
#pragma once

namespace oneflow {

// Copies what `from` says of when, where and in which order it acts. Name, rank and ports are each form's own.
template <typename From, typename To>
void CopyActorFacts(const From& from, To& to) {
  to.set_acts_per_step(from.acts_per_step());
  *to.mutable_parts() = from.parts();
  *to.mutable_crosses() = from.crosses();
  to.set_priority(from.priority());
  to.set_queue(from.queue());
  to.set_section(from.section());
  to.set_chunk(from.chunk());
}

// Copies what a register says of its slots, which all of its instances share.
template <typename From, typename To>
void CopyRegisterFacts(const From& from, To& to) {
  to.set_slots(from.slots());
  to.set_initially_filled(from.initially_filled());
  to.set_zone(from.zone());
  to.set_slot_bytes(from.slot_bytes());
  to.set_slot_stride(from.slot_stride());
  to.set_name(from.name());
}

// Copies what an instruction says of itself beside its texts, attributes, operands and ranks.
template <typename From, typename To>
void CopyInstructionFacts(const From& from, To& to) {
  to.set_kind(from.kind());
  to.set_zero_fill(from.zero_fill());
  to.set_by_counts(from.by_counts());
  to.set_reduce(from.reduce());
  to.set_scratch_offset(from.scratch_offset());
  to.set_scratch_bytes(from.scratch_bytes());
  to.set_group(from.group());
}

}  // namespace oneflow
