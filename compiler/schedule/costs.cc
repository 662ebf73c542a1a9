#include "compiler/schedule/costs.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

bool IsDuration(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

}  // namespace

ScheduleCosts EqualCosts(int num_chunks, const ChunkCosts& chunk) {
  return {.chunks = std::vector<ChunkCosts>(num_chunks, chunk)};
}

absl::Status CheckCosts(const ScheduleCosts& costs, int num_chunks) {
  if (static_cast<int>(costs.chunks.size()) != num_chunks) {
    return absl::InvalidArgumentError(
        absl::StrCat("costs are of ", costs.chunks.size(), " chunks, and there are ", num_chunks));
  }
  if (!costs.transfers.empty() && static_cast<int>(costs.transfers.size()) != num_chunks - 1) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", costs.transfers.size(), " costs of transfers between ",
                                                   num_chunks, " chunks, and not ", num_chunks - 1));
  }
  for (int c = 0; c < num_chunks; ++c) {
    const ChunkCosts& chunk = costs.chunks[c];
    for (const double seconds : {chunk.forward, chunk.input_gradient, chunk.weight_gradient,
                                 c + 1 < num_chunks ? costs.TransferAfter(c) : 0}) {
      if (IsDuration(seconds)) continue;
      return absl::InvalidArgumentError(absl::StrCat("chunk ", c, ": an action or a transfer takes ", seconds, " s"));
    }
    if (chunk.activations < 0) {
      return absl::InvalidArgumentError(absl::StrCat("chunk ", c, ": keeps ", chunk.activations, " of activations"));
    }
  }
  if (IsDuration(costs.together)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("pairs take ", costs.together, " of the time of both"));
}

}  // namespace oneflow
