// What all checks of a program share: the wording of a fault, and arithmetic on numbers that may be anything.
//
// A program may come from a file or from a peer. Nothing here overflows, whatever the numbers are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/repeated_field.h"
#include "oneflow_core/status.h"
#include "proto/program.pb.h"

namespace oneflow {

using Dims = google::protobuf::RepeatedField<int64_t>;

// Far more than any machine has, and small enough that sums of two never overflow.
inline constexpr int64_t kMaxBytes = int64_t{1} << 56;
// Kernels may assume this alignment of what they compute on (kernels/kernel.h).
inline constexpr int64_t kKernelAlignment = 64;

// InvalidArgument with these words.
template <typename... Parts>
absl::Status Malformed(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// "[2,3]".
std::string Text(const Dims& dims);

// The product of `dims` if no size is negative and the product is at most kMaxBytes.
std::optional<int64_t> Count(const Dims& dims);

// The bytes of a tensor. InvalidArgument if there is no such dtype or shape.
absl::StatusOr<int64_t> NumBytes(int dtype, const Dims& dims);

// Whether [offset, offset + size) lies in [0, limit); an empty range may lie at its end.
bool Inside(int64_t offset, int64_t size, int64_t limit);

// Whether the slots of `slot_bytes` bytes, `stride` apart, lie in [0, limit) of their zone. REQUIRES: slots > 0;
// slot_bytes and stride are in [0, kMaxBytes].
bool SlotsInside(int64_t offset, int64_t slots, int64_t slot_bytes, int64_t stride, int64_t limit);

// A shard is a box of the logical tensor. InvalidArgument if it is not.
absl::Status CheckBox(const Dims& start, const Dims& extent, const Dims& logical);

// Every element offset + sum of index * stride is an element of a dense tensor of `dims`. InvalidArgument if one is
// not. REQUIRES: `dims` is a shape.
absl::Status CheckReach(const Dims& extent, int64_t offset, const Dims& stride, const Dims& dims);

// What the program says about itself.
inline bool IsRank(const pb::Program& program, int rank) { return rank >= 0 && rank < program.ranks_size(); }
inline bool IsActor(const pb::Plan& plan, int actor) { return actor >= 0 && actor < plan.actors_size(); }
// The use of register `id` among `ports`; null if there is none.
const pb::Port* FindPort(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id);
// The elements of the first operand, the one that a collective sends or receives; 0 if there is none. REQUIRES: its
// shape was checked.
int64_t Elements(const google::protobuf::RepeatedPtrField<pb::Operand>& operands);
// Where the slots of register `id` land for this actor; null if nowhere.
const pb::Landing* FindLanding(const pb::Actor& actor, int id);

}  // namespace oneflow
