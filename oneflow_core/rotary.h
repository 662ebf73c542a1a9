// The angles of rotary position embeddings (Su et al., "RoFormer", 2021): at position p the i-th pair of columns of a
// head is turned by p * inverse[i]. What the attributes of the op `rotary` mean. Standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/attr.h"

namespace oneflow {

// What `scaling` may be: how a model that was trained on a context of `original_context` positions reads longer ones.
//   none      inverse[i] = theta^(-2i / width)
//   linear    inverse / factor (position interpolation, Chen et al. 2023)
//   dynamic   theta grows where `length` exceeds original_context
//   yarn      fast pairs as they are, slow ones divided, a ramp between; cos and sin times `attention_factor` (Peng et
//             al. 2023)
//   llama3    the same idea by wavelengths, between original_context / high_frequency and / low_frequency
extern const std::vector<std::string> kRotaryScalings;

struct RotaryAngles {
  std::vector<float> inverse;  // of each pair, in radians per position
  float amplitude = 1;         // a factor of cos and sin
};

// Attributes: theta (10000), scaling ("none"), factor (1), original_context (`length`), beta_fast (32), beta_slow (1),
// attention_factor (0: 0.1 ln factor + 1), low_frequency (1), high_frequency (4). `width`: the columns of a head that
// are turned, `length`: the positions of the whole tensor.
RotaryAngles RotaryAnglesOf(const AttrMap& attrs, int64_t width, int64_t length);

}  // namespace oneflow
