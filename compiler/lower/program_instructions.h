// Instructions of a plan on one rank: operands, copies and calls at concrete places.
#pragma once

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "compiler/lower/far_reads.h"
#include "compiler/lower/plan_boxings.h"
#include "compiler/lower/plan_reader.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

// The groups of ranks that make calls together, as lists of members.
using Communicators = std::vector<std::vector<int>>;

// The offset of a class; -1 if it has none.
int64_t OffsetIn(const google::protobuf::RepeatedPtrField<pb::ClassOffset>& offsets, int rank_class);

class InstructionSpeller {
 public:
  // Borrows all. Adds groups that `communicators` lacks. REQUIRES: CheckPlanIndices(set) is OK.
  InstructionSpeller(const pb::PlanSet& set, PlanBoxings& boxings, FarReads& far, Communicators& communicators)
      : set_(set),
        plan_(boxings.plan()),
        reader_(boxings.reader()),
        boxings_(boxings),
        far_(far),
        communicators_(communicators) {}

  // The position of a register in the program, by register and index into its grid; -1 if nobody waits for it.
  using RegisterIndex = std::function<int(int reg, int index)>;
  // Appends the instructions of the actor on `rank` to `out`, and the landings that they read. Each becomes none, one
  // or, where ranks send, up to three; a group becomes all copies that pack, all calls, all copies that unpack.
  //
  // Two consecutive calls of a group are one launch if all ranks of both boxings' groups of ranks make both, on the
  // same communicator, both exchanges or neither. Each member finds this by itself and all find the same: boxings
  // divide ranks into disjoint groups, so a property of one rank's group is one of all its members.
  absl::Status SpellAll(int actor, int rank, const RegisterIndex& register_index, pb::Actor& out);
  // The offset of slot 0 of a register on one of its ranks.
  int64_t RegisterOffset(int reg, int rank) const;
  // Where the plan's region begins in a zone of a rank.
  int64_t RegionAt(int zone, int rank) const;

 private:
  struct Here;   // what is being spelled, and for whom
  struct Share;  // of a boxing where ranks send
  struct Sources;
  struct Shards;

  absl::Status Spell(const Here& here, pb::Actor& out);
  absl::Status SpellGroup(int actor, int rank, absl::Span<const pb::ClassInstruction* const> group,
                          const RegisterIndex& register_index, pb::Actor& out);
  void MakeOwn(const pb::ClassInstruction& instruction, int index, pb::Instruction& to) const;
  absl::Status SpellLandings(int actor, int rank, const RegisterIndex& register_index, pb::Actor& out);
  absl::Status SpellCopy(const Here& here, pb::Actor& out);
  absl::Status AddLanded(const Here& here, int source, GroupBoxing& boxing, Sources& sources) const;
  absl::Status WriteLanded(const Here& here, const pb::ClassOperand& x, int source, const CopyPiece& piece,
                           const FarReads::Parcel& parcel, pb::Operand& out) const;
  absl::StatusOr<Share> ShareOf(const Here& here);
  absl::StatusOr<Shards> ShardsOf(const Here& here, const BoxingShare& share);
  void SpellCall(const Here& here, const BoxingShare& share, const Shards& shards, pb::Instruction& call);
  absl::Status WriteOperand(const Here& here, const pb::ClassOperand& x, int of, pb::Operand& out) const;
  // A row of elements in the workspace.
  pb::Operand RowOperand(const Here& here, int64_t offset, int64_t elements) const;

  const pb::PlanSet& set_;
  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  PlanBoxings& boxings_;
  FarReads& far_;
  Communicators& communicators_;
};

}  // namespace oneflow
