// What only the job knows of its data, and the look at all of them when the job is made.
#pragma once

#include <cstdint>

#include "oneflow_core/graph.h"
#include "oneflow_core/status.h"
#include "tools/job/config.h"
#include "tools/job/program.h"

namespace oneflow {

// Gives the data nodes of all graphs the seed and how many classes their labels may have, then opens every source: a
// bad file, an image of another size or a label outside the classes is an error here, whichever phase would meet it,
// and not on a worker that has trained for a day. Errors of OpenSource, at the field "data". With `open` false
// nothing is opened.
absl::Status PrepareData(uint64_t seed, const SourcedConfig& config, bool open, Program& program);

// How many classes the readers of labels know: the last dimension of the logits beside them. 0 if none says so.
int64_t ClassesOf(const Graph& graph, ValueId labels);

}  // namespace oneflow
