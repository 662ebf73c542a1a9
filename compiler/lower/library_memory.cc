#include "compiler/lower/library_memory.h"

#include <map>
#include <set>

#include "compiler/lower/program.h"
#include "google/protobuf/arena.h"
#include "oneflow_core/library_memory.h"

namespace oneflow {
namespace {

// The calls of a rank on a communicator.
struct Use {
  bool collectives = false;  // reductions, gathers, broadcasts
  std::set<int> peers;       // with whom it exchanges, by position
};

int64_t BytesOf(const Use& use, int members) {
  int64_t bytes = static_cast<int64_t>(use.peers.size()) * kNcclBytesOfAPeer;
  if (use.collectives) bytes += members > 2 ? kNcclBytesOfMore : kNcclBytesOfTwo;
  return bytes;
}

}  // namespace

int64_t ExpectedLibraryBytes(const pb::Program& program, int rank) {
  std::map<int, Use> uses;
  for (const pb::Plan& plan : program.plans()) {
    for (const pb::Actor& actor : plan.actors()) {
      if (actor.rank() != rank) continue;
      for (const pb::Instruction& x : actor.instructions()) {
        if (x.kind() != pb::Instruction::COLLECTIVE) continue;
        Use& use = uses[x.communicator()];
        use.collectives |= x.collective() != "exchange";
        for (const pb::Transfer& transfer : x.transfers()) use.peers.insert(transfer.peer());
      }
    }
  }
  int64_t bytes = kCudaContextBytes + kLoadedKernelBytes;
  for (const auto& [communicator, use] : uses) {
    bytes += BytesOf(use, program.communicators(communicator).ranks_size());
  }
  return bytes;
}

absl::Status AddLibraryMemory(std::optional<int64_t> given, pb::PlanSet& set) {
  if (given.has_value()) {
    for (pb::RankClass& of : *set.mutable_classes()) of.set_library_bytes(*given);
    return absl::OkStatus();
  }
  OF_ASSIGN_OR_RETURN(const PartPrograms programs, PartPrograms::Of(set));
  for (pb::RankClass& of : *set.mutable_classes()) {
    const int rank = of.ranks(0);
    google::protobuf::Arena arena;
    pb::Program& program = *google::protobuf::Arena::CreateMessage<pb::Program>(&arena);
    OF_RETURN_IF_ERROR(programs.Spell({rank}, program));
    of.set_library_bytes(ExpectedLibraryBytes(program, rank));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
