// A job config that is good but for what a test adds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/job/validate.h"

namespace oneflow::testing {

// A small GPT with `rest` behind it, as if it had been read from j.pbtxt.
inline absl::StatusOr<SourcedConfig> GoodConfigWith(const std::string& rest) {
  return ParseConfig(
      "model { gpt { layers: 2 width: 16 heads: 4 context: 8 } } data { text { path: 't.txt' } }\n"
      "train { batch_size: 8 schedule { learning_rate: 1e-3 } }\n" +
          rest,
      "j.pbtxt");
}

}  // namespace oneflow::testing
