// From the plan of a job to the program of one worker: the classes and rules of the plan are spelled out for the ranks
// of one process, as actors, registers, copies and calls at concrete offsets.
//
// The cost is that of the program: the readers and sources of a rank are found among the group of ranks of its boxings
// (sbp/boxing_group.h), never among all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

namespace pb {
class PlanSet;
}

class PlanReader;

// Version of the program format; the runtime refuses any other.
inline constexpr uint32_t kProgramVersion = 10;

// The program of `process`; nullopt: that of all processes together, for tests and for people. `hash` is the plan's
// PlanHash. InvalidArgument, saying where, what and both values, if the plan is malformed or has no such process.
absl::StatusOr<pb::Program> ProgramOf(const pb::PlanSet& plan, std::optional<int> process, const std::string& hash);

// Programs of parts of a plan, one after another: the whole plan is examined once.
class PartPrograms {
 public:
  // Borrows `plan`. Errors as of ProgramOf.
  static absl::StatusOr<PartPrograms> Of(const pb::PlanSet& plan);

  const PlanReader& reader() const { return *reader_; }
  // The program of some ranks, of any processes; all other ranks appear in it as those of other processes do in a
  // worker's program. Without variables and a hash. REQUIRES: `ranks` are ascending, and ranks of the plan. `out` is
  // empty, and may be on an arena: a program is many small pieces.
  absl::Status Spell(const std::vector<int>& ranks, pb::Program& out) const;

 private:
  PartPrograms(const pb::PlanSet& plan, std::shared_ptr<const PlanReader> reader)
      : plan_(&plan), reader_(std::move(reader)) {}

  const pb::PlanSet* plan_;
  std::shared_ptr<const PlanReader> reader_;
};

}  // namespace oneflow
