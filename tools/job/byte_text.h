// Sizes of memory as people write them: "18GB", "1.5 GiB", "900MB", "4096".
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// GB, MB and kB are powers of 1000, GiB, MiB and KiB of 1024; a number alone is bytes. InvalidArgument unless `text` is
// such a size of at least one byte and less than 2^62.
absl::StatusOr<int64_t> BytesOfText(absl::string_view text);

}  // namespace oneflow
