// The boxings of a plan from the view of one rank: the group of ranks that does each with it.
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
  // Borrows all. REQUIRES: CheckPlanIndices is OK of the set of the plan.
  PlanBoxings(const pb::ClassPlan& plan, const PlanReader& reader, BoxingShares& shares);

  const pb::ClassPlan& plan() const { return plan_; }
  const PlanReader& reader() const { return reader_; }
  // Whether the ranks of the actor send, because they cannot read one another's memory.
  bool Sends(int actor) const { return plan_.actors(actor).senders() >= 0; }
  // InvalidArgument if the rank has no part in the boxing, or if it is not one step.
  absl::StatusOr<GroupBoxing*> Of(int rank, const pb::ClassInstruction& boxing);
  // The copies of `rank` in such a boxing. InvalidArgument if it gets nothing, which is possible in a plan from
  // outside.
  static absl::StatusOr<const GroupBoxing::Copies*> CopiesTo(int rank, const pb::ClassInstruction& instruction,
                                                             GroupBoxing& boxing);
  // Whether a rank, where ranks send, reads its own part of a register; `share` is its share of the boxing.
  static bool ReadsOwn(const BoxingShare& share, const pb::ClassInstruction& boxing, int reg);
  // The boxings of an actor that read a register.
  const std::vector<const pb::ClassInstruction*>& ThatRead(int actor, int reg);

 private:
  using ByRegister = absl::flat_hash_map<int, std::vector<const pb::ClassInstruction*>>;

  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  BoxingShares& shares_;
  absl::flat_hash_map<int, ByRegister> readers_;                        // by actor; only those that were asked for
  absl::flat_hash_map<std::tuple<int, int, int>, GroupBoxing*> found_;  // by the tensors' numbers and the rank
};

}  // namespace oneflow
