// A plan of which only some ranks are there, who stand for the others (played_ranks.h): what is simulated.
//
//   plan        producer@1 ──► consumer@0, consumer@1, consumer@2      1 stands for 1 and 2
//   folded      producer@1 ──► consumer@0, consumer@1                  the message to 1 takes as long as the one to 2
//
// A register of a rank that is not played is that of who stands for it. Of messages that become one the last to come
// counts, which is all that anyone waits for; what comes with all of them comes with it. Calls keep their
// communicators.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tools/study/sim/played_ranks.h"

namespace oneflow {

class FoldedPlan {
 public:
  // The plan of `priced` as the only one of a program. Errors of PricedRanks::Of; Internal if the ranks are not alike
  // after all.
  static absl::StatusOr<FoldedPlan> Make(PricedRanks& priced, PlayedRanks ranks, const std::string& hash);

  const PlayedRanks& ranks() const { return ranks_; }
  bool plays_all() const { return ranks_.played.size() == ranks_.stands_for.size(); }
  // As if it were that of all processes together. Of instructions it has the calls alone: which node, on which
  // communicator.
  const pb::Program& program() const { return program_; }
  // Of an actor of the program its number in the whole job.
  int IdOf(int actor) const { return ids_[actor]; }
  // Borrows this, which stays where it is.
  SimulatedCosts Costs() const;

 private:
  class Folder;
  using Way = std::tuple<int32_t, int32_t, int32_t>;  // from, to, about which register

  PlayedRanks ranks_;
  pb::Program program_;
  std::vector<int> ids_;                           // by actor
  std::vector<ActCost> acts_;                      // likewise
  absl::flat_hash_map<Way, int64_t> message_ns_;   // those that take no time are not there
  absl::flat_hash_map<Way, int64_t> shipment_ns_;  // likewise
  absl::flat_hash_map<Way, int64_t> shipment_link_;
};

}  // namespace oneflow
