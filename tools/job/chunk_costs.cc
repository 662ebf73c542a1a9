#include "tools/job/chunk_costs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/queues.h"
#include "tools/job/act_times.h"

namespace oneflow {
namespace {

class ChunkReader {
 public:
  ChunkReader(const pb::Plan& plan, const std::map<int, double>& seconds) : plan_(plan), seconds_(seconds) {
    for (const auto& [actor, median] : seconds) {
      const pb::Actor& of = plan.actors(actor);
      if (!Computes(of)) continue;
      times_[of.chunk()][of.rank()][of.section()] += median;
    }
  }

  int num_chunks() const { return times_.empty() ? 0 : times_.rbegin()->first + 1; }

  absl::StatusOr<ChunkTimes> Read() const {
    ChunkTimes result;
    result.splits_backward = true;
    for (int c = 0; c < num_chunks(); ++c) {
      const double forward = Slowest(c, pb::FORWARD), input = Slowest(c, pb::INPUT_GRADIENTS),
                   weight = Slowest(c, pb::WEIGHT_GRADIENTS), both = Slowest(c, pb::BACKWARD);
      if (forward < 0 || std::max({input, weight, both}) < 0) {
        return absl::InvalidArgumentError(absl::StrCat("plan '", plan_.name(), "': chunk ", c, " of ", num_chunks(),
                                                       " has no ", forward < 0 ? "forward" : "backward",
                                                       " in acts of its own, as a schedule makes them"));
      }
      result.splits_backward = result.splits_backward && both < 0;
      result.costs.chunks.push_back({.forward = forward,
                                     .input_gradient = std::max(input, 0.) + std::max(both, 0.),
                                     .weight_gradient = std::max(weight, 0.),
                                     .activations = Activations(c)});
    }
    for (int c = 0; c + 1 < num_chunks(); ++c) result.costs.transfers.push_back(Transfer(c));
    return result;
  }

 private:
  // What a schedule puts in order.
  bool Computes(const pb::Actor& actor) const {
    return actor.queue() == MainQueue() && actor.acts_per_step() == plan_.micro_batches() &&
           actor.section() != pb::NO_SECTION && actor.section() != pb::UPDATE;
  }
  bool IsBackward(const pb::Actor& actor) const { return Computes(actor) && actor.section() != pb::FORWARD; }

  // Negative if no rank has any of it.
  double Slowest(int chunk, pb::Section section) const {
    const auto ranks = times_.find(chunk);
    double slowest = -1;
    if (ranks == times_.end()) return slowest;
    for (const auto& [rank, sections] : ranks->second) {
      const auto time = sections.find(section);
      if (time != sections.end()) slowest = std::max(slowest, time->second);
    }
    return slowest;
  }

  // The most on any rank.
  int64_t Activations(int chunk) const {
    std::map<int, int64_t> of_rank;
    for (const pb::Register& reg : plan_.registers()) {
      const pb::Actor& producer = plan_.actors(reg.producer());
      if (producer.acts_per_step() != plan_.micro_batches() || IsOfBackward(producer)) continue;
      std::set<int> keeping;
      for (const int consumer : reg.consumers()) {
        const pb::Actor& reader = plan_.actors(consumer);
        if (IsBackward(reader) && reader.chunk() == chunk && reader.rank() == producer.rank())
          keeping.insert(producer.rank());
      }
      for (const int rank : keeping) of_rank[rank] += reg.slot_bytes();
    }
    int64_t most = 0;
    for (const auto& [rank, bytes] : of_rank) most = std::max(most, bytes);
    return most;
  }
  static bool IsOfBackward(const pb::Actor& actor) {
    return actor.section() != pb::FORWARD && actor.section() != pb::NO_SECTION;
  }

  // The slowest of what brings a value of `chunk` to the next.
  double Transfer(int chunk) const {
    double slowest = 0;
    for (const auto& [actor, median] : seconds_) {
      const pb::Actor& moves = plan_.actors(actor);
      if (!QueueKindOf(moves.queue()).moves_between_ranks || moves.section() != pb::FORWARD) continue;
      const bool from_here = std::any_of(moves.inputs().begin(), moves.inputs().end(), [&](const pb::Port& port) {
        const pb::Actor& maker = plan_.actors(plan_.registers(port.register_()).producer());
        return Computes(maker) && maker.section() == pb::FORWARD && maker.chunk() == chunk;
      });
      if (from_here && LeadsTo(moves, chunk + 1)) slowest = std::max(slowest, median);
    }
    return slowest;
  }
  bool LeadsTo(const pb::Actor& moves, int chunk) const {
    for (const pb::Port& port : moves.outputs()) {
      for (const int consumer : plan_.registers(port.register_()).consumers()) {
        if (Computes(plan_.actors(consumer)) && plan_.actors(consumer).chunk() == chunk) return true;
      }
    }
    return false;
  }

  const pb::Plan& plan_;
  const std::map<int, double>& seconds_;                               // by actor
  std::map<int, std::map<int, std::map<pb::Section, double>>> times_;  // by chunk, rank, section
};

}  // namespace

absl::StatusOr<ChunkTimes> TracedChunks(const Trace& trace, int num_chunks) {
  absl::Status status = absl::InvalidArgumentError("none of its plans has acts of a backward");
  for (int p = 0; p < trace.head.program().plans_size(); ++p) {
    const pb::Plan& plan = trace.head.program().plans(p);
    OF_ASSIGN_OR_RETURN(const auto seconds, MedianSeconds(trace, p));
    const bool trains = std::any_of(seconds.begin(), seconds.end(), [&](const auto& of) {
      const pb::Section section = plan.actors(of.first).section();
      return section == pb::BACKWARD || section == pb::INPUT_GRADIENTS;
    });
    if (!trains) continue;
    const ChunkReader reader(plan, seconds);
    if (reader.num_chunks() == num_chunks) return reader.Read();
    status = absl::InvalidArgumentError(
        absl::StrCat("plan '", plan.name(), "' has ", reader.num_chunks(), " chunks, the schedule has ", num_chunks));
  }
  return status;
}

}  // namespace oneflow
