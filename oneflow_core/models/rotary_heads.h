// What the configs of Llama, Gemma and their kin say in common of attention: heads that may share keys and values, and
// rotary positions.
#pragma once

#include <cstdint>
#include <optional>

#include "oneflow_core/models/config.h"

namespace oneflow {

// `kv_heads`, or as many as `heads`.
int64_t KvHeads(const AttrMap& fields);

// What the op `rotary` is told by `rope_theta`, `rope_scaling` and the fields that belong to a scaling.
AttrMap RotaryAttrs(const AttrMap& fields);

// What is wrong with `width`, `heads`, `kv_heads` and `head_width`: heads have to be whole, of an even width, and as
// many for each head of keys and values.
std::optional<FieldComplaint> CheckRotaryHeads(const AttrMap& fields);

}  // namespace oneflow
