// The boxings of a plan as they concern one rank: with which group of ranks it does them.
#pragma once

#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/lower/boxing_shares.h"
#include "compiler/lower/plan_reader.h"
#include "proto/plan.pb.h"

namespace oneflow {

class PlanBoxings {
 public:
  // Borrows all. REQUIRES: CheckPlanIndices is OK of the set that the plan is in.
  PlanBoxings(const pb::ClassPlan& plan, const PlanReader& reader, BoxingShares& shares);

  const pb::ClassPlan& plan() const { return plan_; }
  const PlanReader& reader() const { return reader_; }
  // Whether the ranks of the actor send, because they cannot read one another's memory.
  bool Sends(int actor) const { return plan_.actors(actor).senders() >= 0; }
  // InvalidArgument if the rank has no part in the boxing, or it is none that one step can do.
  absl::StatusOr<GroupBoxing*> Of(int rank, const pb::ClassInstruction& boxing);
  // What `rank` copies in such a boxing. InvalidArgument if it is given nothing, as in a plan from outside.
  static absl::StatusOr<const GroupBoxing::Copies*> CopiesTo(int rank, const pb::ClassInstruction& instruction,
                                                             GroupBoxing& boxing);
  // Whether a rank, where ranks send, reads what it has itself in a register; `share` is its share of the boxing.
  static bool ReadsOwn(const BoxingShare& share, const pb::ClassInstruction& boxing, int reg);
  // Those of an actor that read a register.
  const std::vector<const pb::ClassInstruction*>& ThatRead(int actor, int reg);

 private:
  using ByRegister = absl::flat_hash_map<int, std::vector<const pb::ClassInstruction*>>;

  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  BoxingShares& shares_;
  absl::flat_hash_map<int, ByRegister> readers_;                        // by actor, of those that were asked about
  absl::flat_hash_map<std::tuple<int, int, int>, GroupBoxing*> found_;  // by the tensors' numbers and the rank
};

}  // namespace oneflow
