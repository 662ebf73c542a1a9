#include "actor/check/bounds.h"

#include "absl/strings/str_join.h"
#include "oneflow_core/dtype.h"

namespace oneflow {

std::string Text(const Dims& dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

std::optional<int64_t> Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim > kMaxBytes) return std::nullopt;
    if (dim > 0 && count > kMaxBytes / dim) return std::nullopt;
    count *= dim;
  }
  return count;
}

absl::StatusOr<int64_t> NumBytes(int dtype, const Dims& dims) {
  if (!pb::DType_IsValid(dtype)) return Malformed("dtype ", dtype, " is unknown");
  const std::optional<int64_t> count = Count(dims);
  const int64_t size = static_cast<int64_t>(SizeOf(static_cast<DType>(dtype)));
  if (!count || *count > kMaxBytes / size) return Malformed("dimensions ", Text(dims), " are no shape");
  return *count * size;
}

bool Inside(int64_t offset, int64_t size, int64_t limit) {
  return offset >= 0 && size >= 0 && offset <= limit && size <= limit - offset;
}

bool SlotsInside(int64_t offset, int64_t slots, int64_t slot_bytes, int64_t stride, int64_t limit) {
  if (!Inside(offset, slot_bytes, limit)) return false;
  return stride == 0 || slots - 1 <= (limit - offset - slot_bytes) / stride;
}

absl::Status CheckBox(const Dims& start, const Dims& extent, const Dims& logical) {
  if (start.size() != logical.size() || extent.size() != logical.size()) {
    return Malformed("shard ", Text(start), "+", Text(extent), " has another rank than the logical tensor ",
                     Text(logical));
  }
  if (!Count(logical)) return Malformed("dimensions ", Text(logical), " are no shape");
  for (int i = 0; i < logical.size(); ++i) {
    if (!Inside(start[i], extent[i], logical[i])) {
      return Malformed("shard ", Text(start), "+", Text(extent), " lies outside the logical tensor ", Text(logical));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReach(const Dims& extent, int64_t offset, const Dims& stride, const Dims& dims) {
  if (stride.size() != extent.size()) return Malformed(stride.size(), " strides for ", extent.size(), " extents");
  const int64_t count = *Count(dims);
  const std::optional<int64_t> elements = Count(extent);
  if (!elements) return Malformed("extent ", Text(extent), " is no shape");
  if (*elements == 0) return absl::OkStatus();
  int64_t last = offset;
  bool inside = offset >= 0 && offset < count;
  for (int i = 0; i < extent.size() && inside; ++i) {
    const int64_t steps = extent[i] - 1;
    inside = stride[i] >= 0 && (steps == 0 || stride[i] <= (count - 1 - last) / steps);
    if (inside) last += steps * stride[i];
  }
  if (inside) return absl::OkStatus();
  return Malformed("extent ", Text(extent), " at ", offset, " with strides ", Text(stride), " reaches outside ",
                   Text(dims));
}

const pb::Port* FindPort(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id) {
  for (const pb::Port& port : ports) {
    if (port.register_() == id) return &port;
  }
  return nullptr;
}

int64_t Elements(const google::protobuf::RepeatedPtrField<pb::Operand>& operands) {
  int64_t count = operands.empty() ? 0 : 1;
  if (!operands.empty()) {
    for (const int64_t dim : operands[0].dims()) count *= dim;
  }
  return count;
}

const pb::Landing* FindLanding(const pb::Actor& actor, int id) {
  for (const pb::Landing& landing : actor.landings()) {
    if (landing.register_() == id) return &landing;
  }
  return nullptr;
}

}  // namespace oneflow
