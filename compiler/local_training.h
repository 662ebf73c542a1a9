// Local training: ranks along an axis take steps by themselves, each on its own samples, and take the mean of their
// weights every `tau` steps. A group of ranks is what has one coordinate along the axis.
//
//   train        every rank its own step: variables that it overwrites are "w/local", of type P(mean)
//   sync/begin   w -> w/local                                  before the first step
//   sync/outer   mean of w/local -> outer step -> w            behind every tau-th step
//   sync/adopt   w -> w/local                                  behind sync/outer
//   sync/finish  mean of w/local -> w                          behind the last step
//
// Nothing but these plans and what `train` fetches moves along the axis. All other graphs read w, the outer iterate,
// which is B: a P(mean) cannot be read as one (sbp/boxing_check.cc).
//
// If the mean is late (CO2, arXiv 2401.16265), sync/adopt comes first: it copies w/local to w/snapshot before it is
// overwritten. sync/outer then works on snapshots while the next round is computed (on CUDA devices before it), so that
// what it gives is adopted a round later.
//
//   d = w/previous - mean    m = beta m + d / Lambda    w/previous, w = w, w - alpha clip(m)
//
// where w/previous is w itself if the mean is not late. Lambda is 1, a constant, or ("gap")
//
//   1 + |w - w/previous| / (|d| + 1e-12)      norms over all weights
//
// alpha 1, beta 0 and no delay is LocalSGD: w is the mean. With beta it is SlowMo, with Nesterov's momentum DiLoCo.
// The optimizer's state is every rank's own, and statistics of a model are averaged like weights, without the rest.
#pragma once

#include <string>

#include "compiler/boxed_graph.h"
#include "compiler/options.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {

inline constexpr char kBeginPlan[] = "sync/begin", kOuterPlan[] = "sync/outer", kAdoptPlan[] = "sync/adopt",
                      kFinishPlan[] = "sync/finish";

// Along which axis a job's ranks have values of their own; empty: along none.
struct OwnAxis {
  std::string name;
  // The ranks compute this graph by themselves. Otherwise only what it reads of variables that they have is their own.
  bool graph_is_own = false;
};

// The axis along which ranks have values of their own in the job, and whether the graph is what they compute by
// themselves; no axis if the job does not train locally. InvalidArgument if the mesh has no such axis, or several.
absl::StatusOr<OwnAxis> OwnAxisOf(const CompileOptions& options, const Graph& graph);

// The mean of x over the `groups` ranks along an axis that have it of their own. It travels as the sum of a gradient
// does.
Tensor MeanOfOwn(GraphEditor& editor, const Tensor& x, const std::string& axis, int64_t groups);

// The plans beside `train`, which has been compiled: `variables` has where its variables lie. `trained` is the graph as
// the user wrote it. InvalidArgument if a variable that is averaged is not f32, or there is no such penalty.
absl::StatusOr<Program> ExchangeGraphs(const Graph& trained, const CompileOptions& options, const OpRegistry& ops,
                                       const VariableDists& variables);

}  // namespace oneflow
