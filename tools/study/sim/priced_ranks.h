// What ranks of a plan do, whom they meet, and what their acts cost. Acts of one kind cost the same on all ranks
// (compiler/lower/rank_outline.h), so that only ranks which have one of a kind not seen before are spelled out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/lower/far_reads.h"
#include "compiler/lower/program.h"
#include "compiler/lower/rank_outline.h"
#include "tools/study/sim/rank_costs.h"

namespace oneflow {

// What is sent to an actor of a register that a rank on another host has.
struct PricedLanding {
  int reg = 0;
  int index = 0;  // of that rank in the register's grid
  int64_t ns = 0;
  int64_t sender_link = -1;  // that it takes of that rank
};

struct PricedRank {
  RankOutline outline;
  std::vector<ActCost> costs;                        // by actor of the outline
  std::vector<std::vector<PricedLanding>> landings;  // likewise
};

class PricedRanks {
 public:
  // Borrows `set` and `programs`. REQUIRES: the plan is one of `set`, of which `programs` are.
  PricedRanks(const pb::PlanSet& set, const PartPrograms& programs, int plan, RankCosts costs);
  PricedRanks(const PricedRanks&) = delete;

  // Errors as of PartPrograms.
  absl::StatusOr<PricedRank> Of(int rank);

  const RankCosts& costs() const { return costs_; }
  const PartPrograms& programs() const { return programs_; }
  const pb::ClassPlan& plan() const { return plan_; }
  // Those that calls of the ranks which were asked about have.
  const std::vector<std::vector<int>>& communicators() const { return outline_.communicators(); }
  int num_spelled() const { return num_spelled_; }

 private:
  absl::StatusOr<std::vector<PricedLanding>> LandingsOf(const Instance& reader, FarReads& far) const;
  absl::Status Price(const RankOutline& outline);

  const PartPrograms& programs_;
  const pb::ClassPlan& plan_;
  const int plan_index_;
  const RankCosts costs_;
  BoxingShares shares_;
  PlanBoxings boxings_;
  PlanOutline outline_;
  std::vector<std::optional<PredictedAct>> prices_;  // by kind
  int num_spelled_ = 0;
};

}  // namespace oneflow
