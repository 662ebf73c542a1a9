#include "compiler/lower/offload_cap.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

bool IsCapped(const OffloadOptions& offload) { return offload.memory_bytes > 0; }

// With the first `count` of those that are capped.
CompileOptions WithOffloads(const CompileOptions& options, int count) {
  CompileOptions with = options;
  with.offload.clear();
  for (OffloadOptions offload : options.offload) {
    if (IsCapped(offload) && count-- <= 0) continue;
    offload.memory_bytes = 0;
    with.offload.push_back(offload);
  }
  return with;
}

}  // namespace

bool HasOffloadCap(const CompileOptions& options) {
  return std::any_of(options.offload.begin(), options.offload.end(), IsCapped);
}

absl::StatusOr<pb::PlanSet> CompileUnderOffloadCap(const BoxGraphs& box, const CompileOptions& options,
                                                   const OpRegistry& ops, std::vector<std::string>* warnings) {
  const int64_t cap = std::find_if(options.offload.begin(), options.offload.end(), IsCapped)->memory_bytes;
  const auto capped = static_cast<int>(std::count_if(options.offload.begin(), options.offload.end(), IsCapped));
  std::vector<std::string> taken;  // by number of offloads
  for (int count = 0; count <= capped; ++count) {
    const CompileOptions with = WithOffloads(options, count);
    CompileOptions tried = with;
    for (HostGroup& host : tried.hosts) host.device.memory_bytes = 0;  // plans that are tried may be larger
    OF_ASSIGN_OR_RETURN(std::vector<BoxedGraph> boxed, box(tried, nullptr));
    OF_ASSIGN_OR_RETURN(pb::PlanSet plan, CompileBoxed(boxed, tried, ops));
    const int64_t most = MostBytesOfDevice(plan);
    taken.push_back(absl::StrCat(most, " with ", count));
    if (most > cap) continue;
    OF_ASSIGN_OR_RETURN(boxed, box(with, warnings));
    OF_ASSIGN_OR_RETURN(plan, CompileBoxed(boxed, with, ops));
    if (warnings != nullptr && count > 0) {
      warnings->push_back(absl::StrCat("offload.memory: ", count, " of ", capped, " with it are taken, so that ",
                                       "a device takes ", most, " of ", cap, " bytes"));
    }
    return plan;
  }
  return absl::ResourceExhaustedError(absl::StrCat("offload.memory is ", cap, " bytes, but a device takes ",
                                                   absl::StrJoin(taken, ", "), " of ", capped,
                                                   " offloads; it needs more devices, smaller units or micro-batches, "
                                                   "or recomputation"));
}

}  // namespace oneflow
