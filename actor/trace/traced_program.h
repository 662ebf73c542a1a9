// The program of a trace: its actors with their ranks, and the registers between them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "oneflow_core/status.h"
#include "proto/trace.pb.h"

namespace oneflow {

inline constexpr uint32_t kTraceVersion = 1;

// The part of process `process` in a traced program: its own actors, without their instructions, and the registers that
// these fill, with the numbers of the whole job; no variables. nullopt: all parts together, from the program of all
// processes.
pb::Program TracedProgram(const pb::Program& program, std::optional<int> process);

// A program of all processes, merged from their parts: numbers of the job have become indices, as in any program.
class MergedProgram {
 public:
  // REQUIRES: there are parts, and all have as many plans. InvalidArgument if a part names something that no part has.
  static absl::StatusOr<MergedProgram> Of(const std::vector<pb::Program>& parts);

  const pb::Program& program() const { return program_; }
  // The index of the actor, or register, that has this number in the job; -1 if there is none.
  int32_t ActorIndex(int32_t plan, int32_t number) const { return Find(actors_, plan, number); }
  int32_t RegisterIndex(int32_t plan, int32_t number) const { return Find(registers_, plan, number); }

 private:
  using Indices = std::vector<absl::flat_hash_map<int32_t, int32_t>>;  // by plan, by number
  static int32_t Find(const Indices& indices, int32_t plan, int32_t number);
  absl::Status UseIndices(int32_t plan);

  pb::Program program_;
  Indices actors_, registers_;
};

// InvalidArgument with both values if the head is of another version, or names a rank, an actor or a register that does
// not exist.
absl::Status CheckTraceHead(const pb::TraceHead& head);

// The port of that register; null if there is none.
const pb::Port* PortOf(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int32_t register_id);

}  // namespace oneflow
