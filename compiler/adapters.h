// LoRA (Hu et al. 2021, section 4.1): the weights stay as they are, and beside a matrix W [m, n] that rows are
// multiplied by two thin ones are trained, W/lora_a [m, r] and W/lora_b [r, n]:
//
//   x W     becomes  x W + (alpha / r) (dropout(x) lora_a) lora_b
//   x W^T   becomes  x W^T + (alpha / r) (dropout(x) lora_b^T) lora_a^T
//
// So W + (alpha / r) lora_a lora_b takes the place of all three, whichever way W is read. The factor that x meets first
// begins as PEFT's does (uniform, 1/sqrt(inputs) at most), the other one with zeros: the first step starts from the
// model as it was.
#pragma once

#include <string>

#include "compiler/options.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"

namespace oneflow {

// The names of the factors of the weight's adapter.
std::string AdapterA(const std::string& weight);
std::string AdapterB(const std::string& weight);

// Rewrites all graphs of a job. Those that are not trained have the same adapters, without dropout. InvalidArgument if
// a pattern matches no matrix that rows are multiplied by and nothing else reads (a tied table is looked up in too),
// naming some that there are; if one of `also` matches no weight; if a variable has the name of a factor already.
absl::Status AddAdapters(const AdapterOptions& options, const OpRegistry& ops, Program& program);

}  // namespace oneflow
