// Plans made by hand, for tests of the runtime: registers of f32 vectors, one f32 vector per operand.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/program_check.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "proto/program.pb.h"

namespace oneflow::testing {

// How an actor uses a register.
struct Use {
  int actor;
  int acts_per_slot = 1;
};

class TestPlan {
 public:
  // Rank r is cpu:r of process process_of_rank[r]; one plan named "p".
  explicit TestPlan(const std::vector<int>& process_of_rank, int micro_batches = 1) {
    set_.set_version(kRuntimeProgramVersion);
    set_.set_job("test");
    set_.set_seed(7);
    for (size_t r = 0; r < process_of_rank.size(); ++r) {
      pb::Rank* rank = set_.add_ranks();
      rank->set_process(process_of_rank[r]);
      rank->set_device(absl::StrCat("cpu:", r));
    }
    AddPlan("p", micro_batches);
  }

  pb::Program& set() { return set_; }
  pb::Plan& plan() { return *plan_; }
  // What follows goes to a new plan.
  void AddPlan(const std::string& name, int micro_batches) {
    plan_ = set_.add_plans();
    plan_->set_name(name);
    plan_->set_micro_batches(micro_batches);
  }

  int Actor(int rank, const std::string& name, int acts_per_step = 1, int priority = 0) {
    pb::Actor* actor = plan_->add_actors();
    actor->set_rank(rank);
    actor->set_name(name);
    actor->set_acts_per_step(acts_per_step);
    actor->set_priority(priority);
    return plan_->actors_size() - 1;
  }

  // A register of `elements` floats in shared memory of the producer's rank. Consumers ascend.
  int Register(const std::string& name, Use producer, const std::vector<Use>& consumers, int slots, int elements = 4,
               int initially_filled = 0) {
    const int id = plan_->registers_size();
    pb::Register* reg = plan_->add_registers();
    reg->set_name(name);
    reg->set_producer(producer.actor);
    reg->set_slots(slots);
    reg->set_initially_filled(initially_filled);
    reg->set_zone(kSharedZone);
    reg->set_slot_bytes(elements * 4);
    reg->set_slot_stride((elements * 4 + 63) / 64 * 64);
    reg->set_offset(Reserve(plan_->actors(producer.actor).rank(), slots * reg->slot_stride()));
    AddPort(plan_->mutable_actors(producer.actor)->add_outputs(), id, producer.acts_per_slot);
    for (const Use& use : consumers) {
      reg->add_consumers(use.actor);
      AddPort(plan_->mutable_actors(use.actor)->add_inputs(), id, use.acts_per_slot);
    }
    return id;
  }

  // Shared memory of a rank; its offset.
  int64_t Reserve(int rank, int64_t bytes) {
    pb::Rank* r = set_.mutable_ranks(rank);
    pb::ZoneBytes& zone = MutableZone(*r, kSharedZone);
    const int64_t offset = zone.bytes();
    zone.set_bytes(offset + (bytes + 63) / 64 * 64);
    return offset;
  }

  pb::Instruction* Instruct(int actor, pb::Instruction::Kind kind, const std::string& op,
                            const std::vector<int>& inputs, const std::vector<int>& outputs) {
    pb::Instruction* instruction = plan_->mutable_actors(actor)->add_instructions();
    instruction->set_kind(kind);
    instruction->set_op(op);
    instruction->set_node(absl::StrCat("n/", op));
    instruction->set_source("model.cc:1");
    for (const int id : inputs) SetOperand(instruction->add_inputs(), id);
    for (const int id : outputs) SetOperand(instruction->add_outputs(), id);
    if (kind == pb::Instruction::COLLECTIVE) plan_->mutable_actors(actor)->set_queue(kCommunicationQueue);
    return instruction;
  }
  // With the attribute `shape` that ops of the test device have, where there is an output.
  pb::Instruction* Compute(int actor, const std::string& op, const std::vector<int>& inputs,
                           const std::vector<int>& outputs) {
    pb::Instruction* instruction = Instruct(actor, pb::Instruction::COMPUTE, op, inputs, outputs);
    if (outputs.empty()) return instruction;
    pb::Attribute* shape = instruction->add_attributes();
    shape->set_name("shape");
    *shape->mutable_ints()->mutable_values() = instruction->outputs(0).logical_dims();
    return instruction;
  }
  void Fetch(int actor, int input, const std::string& name) {
    pb::Attribute* attribute = Instruct(actor, pb::Instruction::FETCH, "fetch", {input}, {})->add_attributes();
    attribute->set_name("name");
    attribute->set_s(name);
  }
  // Copies the whole of every input over each other, the later ones added.
  pb::Instruction* Copy(int actor, const std::vector<int>& inputs, int output) {
    pb::Instruction* copy = Instruct(actor, pb::Instruction::COPY, "boxing", inputs, {output});
    for (size_t i = 0; i < inputs.size(); ++i) {
      pb::Piece* piece = copy->add_pieces();
      piece->set_input(static_cast<int>(i));
      piece->add_extent(plan_->registers(inputs[i]).slot_bytes() / 4);
      piece->add_source_stride(1);
      piece->add_target_stride(1);
      piece->set_accumulate(i > 0);
    }
    return copy;
  }

  // A vector of f32, replicated over `ranks` in shared memory, owned by the first of them. Its index.
  int Variable(const std::string& name, int elements, const std::string& init, const std::vector<int>& ranks) {
    pb::Variable* variable = set_.add_variables();
    variable->set_name(name);
    variable->set_dtype(pb::F32);
    variable->add_dims(elements);
    variable->set_init(init);
    variable->set_role(pb::WEIGHT);
    for (size_t i = 0; i < ranks.size(); ++i) {
      pb::Shard* shard = variable->add_shards();
      shard->set_rank(ranks[i]);
      shard->add_start(0);
      shard->add_extent(elements);
      shard->set_zone(kSharedZone);
      shard->set_offset(Reserve(ranks[i], elements * 4));
      shard->set_owner(i == 0);
    }
    return set_.variables_size() - 1;
  }

  static void AddPort(pb::Port* port, int id, int acts_per_slot) {
    port->set_register_(id);
    port->set_acts_per_slot(acts_per_slot);
  }

 private:
  void SetOperand(pb::Operand* operand, int id) {
    operand->set_register_(id);
    operand->set_dtype(pb::F32);
    const int64_t elements = plan_->registers(id).slot_bytes() / 4;
    operand->add_dims(elements);
    operand->add_logical_dims(elements);
    operand->add_start(0);
  }

  pb::Program set_;
  pb::Plan* plan_ = nullptr;
};

}  // namespace oneflow::testing
