// Functions that are made of others: they add several nodes, and have the rules and gradients of those.
#pragma once

#include <vector>

#include "oneflow_core/functional.h"

namespace oneflow {

// x, but no less than `low` and no more than `high`. At a bound half of the gradient passes, as with maximum.
Tensor Clip(Tensor x, double low, double high, Location loc = Location::current());
// x^power. Of a whole power 0 to 16 products of x; of any other exp(power log x), for positive x.
Tensor Pow(Tensor x, double power, Location loc = Location::current());

// cap * tanh(x / cap), which stays within +-cap; x if the cap is 0.
Tensor SoftCap(Tensor x, double cap, Location loc = Location::current());

// Along one dimension; a negative axis counts from the last.
Tensor SoftmaxAlong(Tensor x, int axis, Location loc = Location::current());
Tensor LogSoftmax(Tensor x, int axis = -1, Location loc = Location::current());
// log sum exp x, without overflow. The dimension is gone unless it is kept.
Tensor LogSumExp(Tensor x, int axis = -1, bool keepdims = false, Location loc = Location::current());
// i32[..]: the column of the largest element of each row of x [..,c], the lowest of several.
Tensor ArgMax(Tensor x, Location loc = Location::current());
// f32[..,classes]: 1 at [.., ids[..]], else 0. An id outside of the classes is an error when it is computed.
Tensor OneHot(Tensor ids, int64_t classes, Location loc = Location::current());

// x in parts of these sizes along `axis`. The builder fails with InvalidArgument if they are not all of it.
std::vector<Tensor> Split(Tensor x, int axis, const std::vector<int64_t>& sizes, Location loc = Location::current());
// Tensors of one shape side by side along a new dimension `axis`, which counts among those of the result.
Tensor Stack(const std::vector<Tensor>& xs, int axis, Location loc = Location::current());
// x so many times behind itself in each dimension. The builder fails with InvalidArgument unless there is a number for
// each, and none is negative.
Tensor Tile(Tensor x, const std::vector<int64_t>& repeats, Location loc = Location::current());

// The elements of each row of x [..,c] from the smallest to the largest, or the other way round, and their columns;
// equal ones in the order of their columns.
struct Sorted {
  Tensor values;   // as x
  Tensor indices;  // i32, of the shape of x
};
Sorted Sort(Tensor x, bool descending = false, Location loc = Location::current());

// x with so many elements before and after it in each dimension: its own, mirrored at the first and at the last element
// (which are not repeated), or its first and its last one. The builder fails with InvalidArgument unless there are two
// numbers for each dimension, none negative, and the dimension has as many elements.
Tensor PadReflect(Tensor x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                  Location loc = Location::current());
Tensor PadEdge(Tensor x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
               Location loc = Location::current());

// x [n,c,..] with each sample normalised over every one of `groups` groups of channels, times gamma [c] plus beta [c];
// of a group per channel, instance normalisation. The builder fails with InvalidArgument unless the groups divide the
// channels.
Tensor GroupNorm(Tensor x, Tensor gamma, Tensor beta, int64_t groups, double epsilon = 1e-5,
                 Location loc = Location::current());

// x [n,c,h,w] as [n,c,height,width], each pixel a mean of the four around its place in x, by their distance. The pixels
// at the corners are those of x if `align_corners`; else pixels are squares, and the corners of the images meet.
Tensor ResizeBilinear(Tensor x, int64_t height, int64_t width, bool align_corners = false,
                      Location loc = Location::current());

// What tensors say of the scores [b,heads,t,s].
struct ScoreOptions {
  Tensor documents;  // i32[b,t], if valid: a query sees keys of its own document alone
  Tensor added;      // if valid: to the scores, to whose shape it broadcasts
};
// Attention(q, k, v, heads) with these options: by the kernel that keeps no scores, but where something is added to
// them. Then they lie in memory all at once. The builder fails with InvalidArgument if q, k and v are not those of
// so many heads, or `documents` numbers other tokens.
Tensor ScoredAttention(Tensor q, Tensor k, Tensor v, const AttentionHeads& heads, const ScoreOptions& options,
                       Location loc = Location::current());

// Losses of each element, of the shape of x.

// (x - target)^2.
Tensor SquaredError(Tensor x, Tensor target, Location loc = Location::current());
// -target log s - (1 - target) log(1 - s) with s = sigmoid(x), without overflow.
Tensor BinaryCrossEntropy(Tensor logits, Tensor target, Location loc = Location::current());
// max(0, margin - target x), for targets of 1 and -1.
Tensor HingeLoss(Tensor x, Tensor target, double margin = 1, Location loc = Location::current());
// target (log target - log_x): summed, the Kullback-Leibler divergence of the target from exp(log_x). 0 where the
// target is 0.
Tensor KlDivergence(Tensor log_x, Tensor target, Location loc = Location::current());

// The loss of each row of logits [..,c] against labels i32[..], as a language model may want it.
struct CrossEntropyOptions {
  // e: (1 - e) nll + e mean over c of -log p, which pulls probabilities towards each other (Szegedy et al. 2016)
  double label_smoothing = 0;
  // + z_loss (log of the sum of exponentials)^2, which keeps logits small (Chowdhery et al., "PaLM", 2022)
  double z_loss = 0;
};
Tensor CrossEntropy(Tensor logits, Tensor labels, const CrossEntropyOptions& options,
                    Location loc = Location::current());
// The mean of these over the rows whose label is not `ignored`, of all micro-batches and ranks of a step (StepMean); 0
// if there are none. The label -100 is what others ignore.
Tensor MeanCrossEntropy(Tensor logits, Tensor labels, const CrossEntropyOptions& options = {}, int64_t ignored = -100,
                        Location loc = Location::current());

}  // namespace oneflow
