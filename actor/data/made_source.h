// Data that the engine makes itself: problems of any size with nothing to download, for models with many classes or
// large tables. Sample i is a function of (seed, i) alone, so it is the same on every layout, and there is something to
// learn:
//
//   prototypes   every class has an image of its own (uniform pixels); a sample is its class' image plus normal noise
//   clicks       a user's categorical fields and numbers; whether he clicks is drawn with the probability that a hidden
//                model gives, which is a sum over single fields (wide), over products of neighbouring fields' factors
//                (deep), and over the numbers. Values of a field are as unevenly popular as words: most samples hold
//                few of them.
//
// Training samples come in a new permutation every epoch; validation samples are others, in order.
#pragma once

#include <memory>

#include "actor/data/source.h"

namespace oneflow {

// Attributes: classes, samples, noise (standard deviation; pixels are in [-1, 1]), split, seed. Fills
// f32[batch,channels,height,width] of any size and i32[batch].
absl::StatusOr<std::unique_ptr<Source>> OpenPrototypeSource(const AttrMap& attributes);

// Attributes: vocabulary, samples, split, seed. Fills ids i32[batch,fields], numbers f32[batch,numbers], clicked
// i32[batch]. Of `vocabulary` ids, field f of F has those from f * vocabulary / F to below (f + 1) * vocabulary / F.
absl::StatusOr<std::unique_ptr<Source>> OpenClickSource(const AttrMap& attributes);

}  // namespace oneflow
