// The relations of one rank of a plan to others: its actors, the registers that they read, the readers of theirs, the
// partners of their calls, and the order of acts. Instructions are not part of it: they are the work of spelling
// (program_instructions.h), and most of the work.
//
//   h0/up of tp=4, on each of dp        rank 5     actor 17, of kind 3
//                                                    reads   register 40 of rank 5
//                                                    gives   register 41 to actor 18 on ranks 4 to 7
//                                                    calls   instruction 0 with ranks 4 to 7
//
// Instances of an actor of one kind have the same instructions, except for places (in memory, of shards in their
// tensors, of copies in shards) and partners; those are equally far away, and have the same devices.
#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/lower/plan_boxings.h"
#include "compiler/lower/plan_reader.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// One actor of a plan on one rank.
struct Instance {
  int actor = 0;
  int rank = 0;
  bool operator<(const Instance& o) const { return std::pair(actor, rank) < std::pair(o.actor, o.rank); }
};

struct OutlinedActor {
  struct Input {
    int reg = 0;
    int acts_per_slot = 1;
    std::vector<int> indices;  // in the register's grid: those whose registers it reads; never empty
  };
  struct Output {
    int reg = 0;
    int acts_per_slot = 1;
    std::vector<Instance> readers;  // never empty: registers without readers are not listed
  };
  struct Call {
    int instruction = 0;
    int communicator = 0;  // as PlanOutline numbers them
  };

  int actor = 0;
  int kind = 0;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Call> calls;
};

struct OutlinedOrder {
  int queue = kComputeQueue;
  std::vector<int> actors;  // once per act of a step
};

struct RankOutline {
  int rank = 0;
  std::vector<OutlinedActor> actors;  // ascending
  std::vector<OutlinedOrder> orders;  // at most one per queue
};

// Of one plan, rank by rank.
class PlanOutline {
 public:
  // Borrows all. `topology` gives distances and devices of ranks of one kind; it may differ from the job's. REQUIRES:
  // the boxings are those of a plan of the set, CheckPlanIndices is OK of it.
  PlanOutline(const pb::PlanSet& set, PlanBoxings& boxings, const Topology& topology);
  ~PlanOutline();

  // InvalidArgument, saying where, if the plan is malformed.
  absl::StatusOr<RankOutline> Of(int rank);
  // Members of the communicators of calls, ascending or in the order that defines the call.
  const std::vector<std::vector<int>>& communicators() const;

 private:
  class Outliner;
  std::unique_ptr<Outliner> outliner_;
};

// The numbers of instances in the whole job (ClassActor.first_id, ClassRegister.first_id).
class InstanceIds {
 public:
  // Borrows both.
  InstanceIds(const pb::ClassPlan& plan, const PlanReader& reader) : plan_(plan), reader_(reader) {}

  // REQUIRES: the actor acts on the rank.
  int OfActor(const Instance& instance) const;
  int OfRegister(int reg, int index) const { return plan_.registers(reg).first_id() + index; }

 private:
  int PlaceAmongSenders(const Instance& instance) const;

  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  mutable absl::flat_hash_map<std::tuple<int, int, int>, int> place_among_senders_;  // by grid, senders' grid, rank
};

}  // namespace oneflow
