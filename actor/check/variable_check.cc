#include "actor/check/variable_check.h"

#include <algorithm>
#include <vector>

#include "actor/check/bounds.h"
#include "actor/init.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

bool Overlap(const pb::Shard& a, const pb::Shard& b) {
  for (int i = 0; i < a.start_size(); ++i) {
    if (std::max(a.start(i), b.start(i)) >= std::min(a.start(i) + a.extent(i), b.start(i) + b.extent(i))) return false;
  }
  return true;
}

// The bytes of the shard, which lie in its zone.
absl::StatusOr<int64_t> CheckShard(const pb::Program& program, const pb::Variable& variable, const pb::Shard& shard) {
  if (!IsRank(program, shard.rank())) {
    return Malformed("rank ", shard.rank(), " is not one of ", program.ranks_size());
  }
  OF_RETURN_IF_ERROR(CheckBox(shard.start(), shard.extent(), variable.dims()));
  if (!IsZone(shard.zone())) return Malformed("zone ", shard.zone(), " is unknown");
  OF_ASSIGN_OR_RETURN(const int64_t bytes, NumBytes(variable.dtype(), shard.extent()));
  const int64_t limit = BytesOfZone(program.ranks(shard.rank()), shard.zone());
  if (ZoneKindOf(shard.zone()).in_file && bytes > 0) {
    const int64_t whole = (bytes + kFileBlock - 1) / kFileBlock * kFileBlock;
    if (shard.offset() % kFileBlock != 0 || !Inside(shard.offset(), whole, limit)) {
      return Malformed(bytes, " bytes at ", shard.offset(), " are not whole blocks of ", kFileBlock,
                       " within the file of ", limit);
    }
  }
  if (Inside(shard.offset(), bytes, limit)) return bytes;
  return Malformed(bytes, " bytes at ", shard.offset(), " reach outside the zone of ", limit);
}

}  // namespace

absl::Status CheckVariable(const pb::Program& program, const pb::Variable& variable) {
  if (variable.name().empty()) return Malformed("it has no name");
  OF_RETURN_IF_ERROR(NumBytes(variable.dtype(), variable.dims()).status());
  if (variable.own() < 0 || (variable.own() > 0 && (variable.dims().empty() || variable.dims(0) != variable.own()))) {
    return Malformed("it is of ", variable.own(), " groups of ranks, but of ",
                     variable.dims().empty() ? 0 : variable.dims(0), " in its first dimension");
  }
  const int64_t count = *Count(variable.dims());
  OF_RETURN_IF_ERROR(ParseInit(variable.init(), count).status());
  std::vector<const pb::Shard*> owners;
  int64_t owned = 0;
  for (int i = 0; i < variable.shards_size(); ++i) {
    const pb::Shard& shard = variable.shards(i);
    const std::string where = absl::StrCat("shard ", i);
    OF_ASSIGN_OR_RETURN_AT(const int64_t bytes, CheckShard(program, variable, shard), where);
    if (!shard.owner() || bytes == 0) continue;
    owned += *Count(shard.extent());
    for (const pb::Shard* other : owners) {
      if (Overlap(*other, shard)) return Malformed(where, ": another owner's shard overlaps it");
    }
    owners.push_back(&shard);
  }
  if (owned != count && !program.has_process()) return Malformed("owners hold ", owned, " of its ", count, " elements");
  return absl::OkStatus();
}

}  // namespace oneflow
