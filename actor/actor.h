// The state machine of one actor: it counts filled and free slots, and says when to act. It never blocks, locks, sends
// or computes. Its driver (an actor thread, a test) delivers messages, runs the act and sends the messages that Act()
// puts in the outbox.
//
//              available[input]                        available[output]
//   ──filled──►  ▓▓░                      ┌─────┐                     ▓░  ◄──freed──
//                ready: every port holds a│ Act │slot or has one available, and acts are left in the budget
//   ◄──freed───                           └─────┘                         ──filled──►
//              every acts_per_slot acts a slot is let go
//
// The producer and every consumer use the slots of a register round-robin, so a message must name the next slot in
// line; any other is an error of the sender. The budget is granted in whole steps. The actor is done when the budget is
// used up and every input and output is as it was in the beginning; nothing is then on its way to it. State stays, so a
// further grant continues where the last one ended.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actor/message.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"
#include "proto/waits.pb.h"

namespace oneflow {

// How an actor uses one register.
struct PortSpec {
  int32_t register_id = 0;
  int32_t acts_per_slot = 1;
  int32_t slots = 1;
  int32_t initially_filled = 0;
  std::vector<int32_t> peers;  // of an input the producer, of an output the consumers
};

struct ActorSpec {
  uint16_t plan = 0;
  int32_t id = 0;
  std::string name;
  int32_t acts_per_step = 1;
  std::vector<PortSpec> inputs;
  std::vector<PortSpec> outputs;
};

// The specification of actor `actor` in plan `plan_index`. REQUIRES: the plan passed CheckProgram.
ActorSpec MakeActorSpec(const pb::Plan& plan, int plan_index, int actor);

pb::WaitPeer PeerOf(const pb::Plan& plan, int32_t actor);
// "register 3 'x' slot 0 to be filled by actor 2 'up' on rank 1".
std::string WaitText(const pb::Wait& wait);
// "waits for register ... (step 3, micro-batch 0, 7 acts left)"; "ready" if it waits for nothing.
std::string WaitText(const pb::WaitingActor& actor);

class Actor {
 public:
  explicit Actor(ActorSpec spec);

  // Allows the steps first_step .. first_step + steps - 1. REQUIRES: acts_left() == 0.
  void Grant(int64_t first_step, int64_t steps) {
    first_step_ = first_step;
    act_ = 0;
    acts_left_ = steps * spec_.acts_per_step;
  }

  // Takes in one message. InvalidArgument if it concerns no port of this actor, or not the next slot in line.
  absl::Status OnMessage(const Message& message);
  // The same, if the sender has looked up the port: the index of the register among this actor's inputs (outputs).
  absl::Status OnMessage(const Message& message, int port);
  // The index of a register among the inputs (outputs); -1 if it is none.
  int InputOf(int32_t register_id) const { return Find(input_of_register_, register_id); }
  int OutputOf(int32_t register_id) const { return Find(output_of_register_, register_id); }

  // Whether an act may begin now.
  bool ready() const { return acts_left_ > 0 && missing_ == 0; }
  // Ends the act that ready() allowed: goes to the next one and appends the messages that the act causes, `filled`
  // before `freed`. REQUIRES: ready().
  void Act(OutgoingMessages& outbox);
  // The same, with the link of each message. Links are numbered: the consumers of output 0, then those of output 1,
  // ..., then the producer of each input.
  void Act(OutgoingMessages& outbox, std::vector<int32_t>& links);
  // Whether the budget is used up and every input and output is as it was in the beginning.
  bool done() const;

  const ActorSpec& spec() const { return spec_; }
  // Of the current (or next) act.
  int64_t step() const { return first_step_ + act_ / spec_.acts_per_step; }
  int64_t micro_batch() const { return act_ % spec_.acts_per_step; }
  int64_t acts_left() const { return acts_left_; }
  // The slot of input i, output i, in the current act.
  int32_t input_slot(int i) const { return inputs_[i].slot; }
  int32_t output_slot(int i) const { return outputs_[i].slot; }
  // Whether the current act reads or writes that slot of a register.
  bool Uses(int32_t register_id, int32_t slot) const;

  // The reasons why it does not act, and the slots that others may wait for; actors and registers as numbered in
  // `plan`.
  pb::WaitingActor Waits(const pb::Plan& plan) const;
  // The same for people: "waits for register 3 'x' ..."; "ready", "done" or "idle" if nothing does.
  std::string WaitsFor(const pb::Plan& plan) const;

 private:
  struct Port {
    int32_t available = 0;           // slots that may be taken
    int32_t position = 0;            // acts done on the slot now held; 0: none is held
    int32_t slot = 0;                // held, or next to be taken
    uint8_t number = 0;              // inputs: of the next filling; outputs: of the filling that is made next
    std::vector<int32_t> frees_due;  // outputs: per slot, consumers that still read it
  };

  // The port of that register; -1 if there is none.
  static int Find(const std::vector<std::pair<int32_t, int32_t>>& ports, int32_t register_id);
  // One slot of `port` has become available.
  void Add(Port& port);
  // Act() with a function that takes a message and its link.
  template <typename Send>
  void EndAct(const Send& send);
  absl::Status OnFilled(const Message& message, int port);
  absl::Status OnFreed(const Message& message, int port);
  absl::Status Unexpected(const Message& message, const std::string& why) const;
  // The error of a message with the wrong number of filling.
  absl::Status WrongNumber(const Message& message, uint8_t number) const;
  void AddWaits(const pb::Plan& plan, pb::WaitingActor& to) const;
  void AddSlots(pb::WaitingActor& to) const;

  ActorSpec spec_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<std::pair<int32_t, int32_t>> input_of_register_;  // sorted (register, port)
  std::vector<std::pair<int32_t, int32_t>> output_of_register_;
  int32_t missing_ = 0;  // ports that neither hold a slot nor have one available
  int64_t first_step_ = 0;
  int64_t acts_left_ = 0;
  int64_t act_ = 0;  // since the grant
};

}  // namespace oneflow
