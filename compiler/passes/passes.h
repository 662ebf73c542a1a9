// The passes, in the order in which the pipeline runs them. Each is a function that changes the graph in place and says
// whether it did; a pass finds all it needs in the graph and the context and leaves nothing behind elsewhere.
#pragma once

#include "compiler/boxed_graph.h"

namespace oneflow {

// What every pass may read. All borrowed but the topology.
struct PassContext {
  const CompileOptions& options;
  const OpRegistry& ops;
  const VariableDists& variables;  // fixed by earlier graphs of the program
  Topology topology;
  std::vector<std::string> warnings = {};  // for the user; not errors
};

// key-random-ops: an op that draws random numbers is keyed by the name that its user gave it, even if it is renamed
// later.
//
//   before   dropout "h0/dropout"        after   dropout "h0/dropout" {key="h0/dropout"}
absl::StatusOr<bool> KeyRandomOps(Graph& graph, PassContext& context);

// read-averages: if the options ask for it, graphs that are not trained read the moving averages of weights.
//
//   before   w -> ...        after   "w/average" -> ...
//
// REQUIRES: the graph that is trained comes first in the program. A weight without an average, a frozen one, stays.
absl::StatusOr<bool> ReadAverages(Graph& graph, PassContext& context);

// name-axes: an annotation for a role (oneflow_core/mesh.h) is one for each axis of the plan's mesh that has it. One
// for a role that no axis has stays, and has no effect.
//
//   before   w "tp:S(1)"        after, on a mesh of axes x and y for models   w "x:S(1),y:S(1)"
//
// InvalidArgument if a place in a role is asked for that several axes have.
absl::StatusOr<bool> NameAxes(Graph& graph, PassContext& context);

// sequence-parallel, if the options ask for it: between products whose weights lie split along an axis for models,
// values lie split by tokens.
//
//   before   x -> matmul(w "tp:S(1)") -> ...              y -> matmul(v "tp:S(0)") -> ...
//   after    x -> to "tp:B" -> matmul -> to "tp:S(2)"     y -> matmul -> to "tp:P" -> to "tp:S(1)" -> ...
//
// A mesh or model without such products gives a warning.
absl::StatusOr<bool> SequenceParallel(Graph& graph, PassContext& context);

// mixed-precision: casts the operands of ops to the type that the job asks for, or the model for a part of itself.
// Variables stay as they are: they are the masters.
//
//   before   x, w -> matmul -> y -> softmax -> ...
//   after    x -> cast, w -> cast -> matmul {out_dtype=f32} -> y -> softmax -> ...     y -> cast -> what follows y
//
// Changes nothing where nobody asks for a narrow type.
absl::StatusOr<bool> MixPrecision(Graph& graph, PassContext& context);
// round-addends, if the options ask for addends to be reduced in a narrow type: values may be rounded while they are
// partial, and gradients of variables are rounded before they are reduced: those of a step, or those of each
// micro-batch where these are reduced, or on request all that are accumulated.
//
//   before   ... -> accumulate "w/grad"
//   after    ... -> accumulate "w/grad" -> cast {addends=true}
//   or       ... -> cast {addends=true} -> cast {dtype=f32} -> accumulate "dp:S(0)"
//   or       ... -> cast {addends=true} -> accumulate in that type -> ...
absl::StatusOr<bool> RoundAddends(Graph& graph, PassContext& context);
// narrow-products: a sum that is only read rounded to a narrow type, on the ranks that make it, is made in that type.
//
//   before   x, w -> matmul {out_dtype=f32} -> cast        after   x, w -> matmul {out_dtype=bf16}
absl::StatusOr<bool> NarrowProducts(Graph& graph, PassContext& context);

// autodiff: writes the gradient of the sum of the losses as more graph, as backward nodes, along the paths to trainable
// variables. The summed gradient of a variable is the output of the last node that serves it as a reduction.
//
//   before   x, w -> matmul -> loss
//   after    x, w -> matmul -> loss    constant(1/k) -> ... -> matmul_wgrad -> accumulate "w/grad"
//
// Nothing to do for a graph without losses. Unimplemented, naming op and line, if an op on the way has no gradient;
// InvalidArgument if the losses depend on no trainable variable. A variable on which no loss depends stays as it is,
// with a warning.
absl::StatusOr<bool> Autodiff(Graph& graph, PassContext& context);
// By node: the gradient of a variable, else -1. It is the output of the last of its reductions.
std::vector<ValueId> VariableGradients(const Graph& graph);

// average-fetches: in a step of k > 1 micro-batches, fetches and running averages get the mean over them.
//
//   before   loss -> fetch               after   loss -> accumulate -> scale(1/k) -> fetch
//
// InvalidArgument if the value is not f32.
absl::StatusOr<bool> AverageFetches(Graph& graph, PassContext& context);

// compress-gradients, if the options ask for it: gradients of matrices are summed along an axis as codes, with what a
// codec keeps of each variable. PowerSGD of rank r, for example, with w f32[n,m]:
//
//   before   ... -> accumulate "w/grad"
//   after    ... -> accumulate "w/grad" + error -> matmul -> orthonormalize -> matmul_wgrad -> matmul "w/grad_sum"
//            "w/compress/error" f32[ranks,n,m] and "w/compress/factor" f32[m,r], both overwritten
//
// Where codes are not fewer bytes than the gradient, and of vectors, nothing changes. InvalidArgument if there is no
// such codec or axis, or the loss is scaled.
absl::StatusOr<bool> CompressGradients(Graph& graph, PassContext& context);

// optimizer: from gradients to new weights, as update nodes.
//
//   w/grad -> square_sum -\                                   step -> lr_schedule -> lr
//   ...                    add_n -> clip_scale -> scale       (w, adam_m, adam_v mut), grad, lr, ... -> adamw_update
//   v/grad -> square_sum -/                 \-> norm -> fetch  step mut -> increment
//
// What is frozen has no gradient and is left alone. Groups of variables (compiler/parameter_groups.h) may have a rule,
// decay and rate of their own; their rate is `scale` of lr.
//
// If the loss is scaled (loss_scale.h), the scale is divided out before clip_scale. Rounded gradients are widened
// first. InvalidArgument if a variable of the model has the name of one of the optimizer's.
absl::StatusOr<bool> AddOptimizer(Graph& graph, PassContext& context);

// split-states, if the options ask for it: weights, and with them their optimizer's state, lie split along axes that
// would have copies; on request sums of gradients too. Both are wishes, as a user might write them.
//
//   before   w        accumulate "w/grad"           after   w "dp:S(0)"        accumulate "w/grad" "dp:S(0)"
//
// A weight with a wish along such an axis keeps it. A mesh that has nothing along the axis gives a warning.
absl::StatusOr<bool> SplitStates(Graph& graph, PassContext& context);

// mean-gradients, in plans where ranks that train by themselves take a step together (compiler/local_training.h):
// gradients are means over them.
//
//   before   ... -> accumulate "w/grad"        after   ... -> accumulate "w/grad" -> addends -> sum -> scale
absl::StatusOr<bool> MeanGradients(Graph& graph, PassContext& context);
// local-steps: where ranks train by themselves, the variables of the model that a step overwrites are their own, and
// the host is told means over them.
//
//   before   w, w/grad -> adamw_update      loss -> fetch
//   after    w/local, w/grad -> adamw_update     loss -> addends -> sum -> scale -> fetch
//
// InvalidArgument if a fetched value that differs is not f32.
absl::StatusOr<bool> LocalSteps(Graph& graph, PassContext& context);

// assign-tiers, if the options ask for it: says of weights that they lie in a tier of memory below the device's.
//
//   before   w -> matmul   after   w {tier disk} -> matmul
absl::StatusOr<bool> AssignTiers(Graph& graph, PassContext& context);

// remove-dead-code: drops nodes that no effect depends on. Effects are fetches, mutations and the losses (which stay
// even if nobody reads them, because they say that the graph is trained).
absl::StatusOr<bool> RemoveDeadCode(Graph& graph, PassContext& context);

// place-nodes: gives every node a placement. The axis of stages is cut into stages; all other axes stay whole
// for SBP. InvalidArgument if a placement hint is outside the mesh, or if variables that one node overwrites are wanted
// in two places.
absl::StatusOr<bool> PlaceNodes(Graph& graph, PassContext& context);

// group-sums: adds addends on the same ranks there before they meet, so that one sum travels instead of each addend.
//
//   before   a@0, b@1, c@1 -> add_n@0        after   b@1, c@1 -> add_n@1;   a@0, that -> add_n@0
absl::StatusOr<bool> GroupSums(Graph& graph, PassContext& context);

// expand-composites: ops along the classes (softmax, cross entropy, top-1) become parts, whose signatures may split the
// classes.
//
//   before   x -> softmax            after   x -> reduce_max -> m;   x, m -> exp_sum -> s;   x, m, s -> softmax_apply
//
// REQUIRES: every node has a placement.
absl::StatusOr<bool> ExpandComposites(Graph& graph, PassContext& context);
// fuse-composites: parts without a boxing between them become one op again.
absl::StatusOr<bool> FuseComposites(Graph& graph, PassContext& context);

// assign-rates: decides which nodes act once per micro-batch and which once per step, by the rules of boxed_graph.h,
// and drops every `accumulate` that has nothing to sum. InvalidArgument if a variable would be mutated once per
// micro-batch.
absl::StatusOr<bool> AssignRates(Graph& graph, PassContext& context);
// For every node: whether its result differs between micro-batches (it reads data, draws random numbers, or depends on
// such nodes).
std::vector<bool> DependsOnMicroBatch(const Graph& graph, const OpRegistry& ops);

// select-sbp: writes the `dist` of every value, and a `boxing` node wherever a reader needs another type than the
// producer gives; such a boxing may take several steps. The decision itself is SelectSbp (compiler/select/).
//
//   before   x -> matmul -> relu         after   x S(0) -> matmul P -> boxing B -> relu B
absl::StatusOr<bool> SelectLayouts(Graph& graph, PassContext& context);

// check-replicas, if the options ask for it: every B value is compared between the ranks that hold it before anyone
// reads it. The job fails at the node whose copies differ.
//
//   before   x (B) -> reader         after   x -> replica_digest -> boxing -> d;   x, d -> assert_replicas -> reader
absl::StatusOr<bool> CheckReplicas(Graph& graph, PassContext& context);

// insert-boxing: replaces each `boxing` by one node per step on its path, shared where two paths begin alike, and
// dissolves `to`.
//
//   before   P -> boxing B -> ...        after   P -> boxing S(0) -> boxing B -> ...
//            P -> boxing S(0) -> ...                            \-> ...
absl::StatusOr<bool> InsertBoxing(Graph& graph, PassContext& context);

// code-boxings, if the options ask for it: weights that lie split along an axis are gathered as levels of few bits, and
// so travels what goes from stage to stage.
//
//   before   w S -> boxing B -> ...
//   after    w S -> reshape -> quantize -> codes -> boxing B, ranges -> boxing B -> dequantize -> reshape -> ...
//
// InvalidArgument if the mesh has no such axis.
absl::StatusOr<bool> CodeBoxings(Graph& graph, PassContext& context);

// pack-weights: on cpu the weights of bf16 products lie in panels, for each direction in which they are read.
//
//   before   w -> cast {dtype=bf16} -> c;   x, c -> matmul     dy, c -> matmul {transpose_b}
//   after    w -> pack_weight -> p;         x, p -> packed_matmul
//            w -> pack_weight {transpose} -> q;                  dy, q -> packed_matmul
absl::StatusOr<bool> PackWeights(Graph& graph, PassContext& context);

// recompute, if the options ask for segments of a kind: values of a segment that backward reads are computed again from
// the inputs of the segment, boxings included. Nothing of it runs before the first gradient that needs it. If the
// options ask for gathers, boxings that gather are repeated likewise.
//
//   before   x -> a -> b -> ...      dy, b -> b' -> ...; x, a -> a'
//   after    x -> a -> b -> ...      x -> a* (after dy) -> b*      dy, b* -> b' -> ...; x, a* -> a'
//
// Only needed values are computed again, and only where that keeps fewer bytes (recompute.cc). Layouts and random
// numbers are those of the original, so losses have the same bits. InvalidArgument if the model marks no such segments.
absl::StatusOr<bool> Recompute(Graph& graph, PassContext& context);
// By node: the piece of the model, numbered from 0, whose values the options ask to compute again for backward; -1:
// none. A piece is the part of a segment in one chunk. Boxings belong to none yet, nor do nodes with the same result in
// all micro-batches.
std::vector<int> RecomputedPieces(const Graph& graph, const PassContext& context);

// ring-attention: attention of queries and keys whose tokens lie split along an axis becomes attention of each rank's
// own, then of those that ranks pass on around a ring.
//
//   before   q, k, v (S(1)) -> attention -> out, lse
//   after    q, k, v -> attention -> out0, lse0
//            k, v -> boxing from the rank before -> with q -> attention -> out1, lse1;  merge_attention -> out, lse
absl::StatusOr<bool> RingAttention(Graph& graph, PassContext& context);

// fuse: several ops that each pass over memory become one op that passes once, where the device has a kernel for it
// (oneflow_core/fusions.h).
//
//   before   x, ... -> batch_norm -> h -> relu -> y
//   after    x, ... -> batch_norm_relu {made_of="h = batch_norm(x, ...); y = relu(h)"} -> y
absl::StatusOr<bool> Fuse(Graph& graph, PassContext& context);
// fuse-elementwise: elementwise ops that read one another, and that no pattern names, become one op. It holds values
// between them a block at a time.
//
//   before   x -> sigmoid -> s      x, s -> mul -> h      h, u -> mul -> y
//   after    x, u -> elementwise {made_of="t0 = sigmoid(x0); t1 = mul(x0, t0); y0 = mul(t1, x1)"} -> y
absl::StatusOr<bool> FuseElementwise(Graph& graph, PassContext& context);

// pack-once: panels that are needed at the same time are made in one pass over the weight.
//
//   before   w -> pack_weight -> p;   w -> pack_weight {transpose} -> q
//   after    w -> pack_weight_both_ways -> p, q
absl::StatusOr<bool> PackOnce(Graph& graph, PassContext& context);

// channel-blocks: on cpu the operands of convolutions, and values between them, lie in blocks of channels.
//
//   before   x -> conv2d -> y -> relu -> z -> conv2d -> u -> reshape
//   after    x -> conv2d -> y blocks -> relu -> z blocks -> conv2d -> u blocks -> reorder -> u' -> reshape
//
// Only where that saves bytes (channel_blocks.cc): x is an image of three channels.
absl::StatusOr<bool> ChannelBlocks(Graph& graph, PassContext& context);

// offload: variables that lie in a tier are loaded for what reads them. What an update overwrites is loaded and stored
// by units, a few at a time.
//
//   before   m;  w, m, g -> adamw_update
//   after    m {tier disk} -> from_tier {unit 2} (after done of unit 0) -> m';   w, m', g -> adamw_update {unit 2}
//            m, m' -> store_in_tier {unit 2} -> done
//
// Gradients whose updates wait for others are stored too, if the options ask for it: g -> to_tier -> from_tier -> g'.
// Unimplemented if updates would wait for one another in a circle, or a variable is overwritten in every micro-batch.
absl::StatusOr<bool> Offload(Graph& graph, PassContext& context);

// offload-activations, if the options ask for it: what backward reads of forward is stored in a tier, and loaded before
// backward comes to it.
//
//   before   x, w -> matmul -> y;   ...   dy, x -> matmul_wgrad -> dw
//   after    x, w -> matmul {unit 0} -> y;   x -> to_tier {unit 0} -> t;   ...
//            t -> from_tier {unit 9} (after dz of unit 8) -> x';   dy, x' -> matmul_wgrad {unit 9} -> dw
absl::StatusOr<bool> OffloadActivations(Graph& graph, PassContext& context);

// gather-weights, if the options ask for it: a weight that lies split, or in a tier, is gathered, or loaded, for each
// use, in every micro-batch, a little before it. Weights used one after the other are gathered together, as one unit.
//
//   before   w S -> boxing B -> c;   x, c -> matmul -> y;   ...   dy, c -> matmul -> dx
//   after    w S -> boxing B {unit 1} (after x of unit 0) -> c;      x, c -> matmul -> y
//            w S -> boxing B {unit 8} (after dy of unit 7) -> c*;    dy, c* -> matmul -> dx
absl::StatusOr<bool> GatherWeights(Graph& graph, PassContext& context);

// reduce-gradients, if the options ask for it: gradients that are reduced to parts travel as units, and backward does
// not run so far ahead that many of them are whole.
//
//   before   ... -> matmul_wgrad -> dw P -> boxing S     after   ... -> matmul_wgrad (after u S of unit 1) -> dw P
//                                                                dw P -> boxing S {unit 3}
absl::StatusOr<bool> ReduceGradients(Graph& graph, PassContext& context);

}  // namespace oneflow
