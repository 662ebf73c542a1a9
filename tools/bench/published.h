// Published measurements of training GPT on large clusters, as data, with their sources.
//
//   Selene    Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2205.05198), table 5
//   Table 1   Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2104.04473): table 1,
//             with the sizes of micro-batches and the chunks of its scripts (Megatron-LM, sc21/run_table_1.sh)
//   memory    2205.05198, figure 1, by its formulas
//   figures   2104.04473: configurations of its scripts (sc21/*.sh); of these the order is known
//   Frontier  Dash et al., "Optimizing Distributed Training on Frontier" (2312.12705), observations III.1 to III.4
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace oneflow {

struct PublishedModel {
  const char* name;
  int64_t layers, width, heads;
};

// What is computed again for backward: nothing, the core of attention, or every layer.
enum class Recomputed : uint8_t { kNone, kAttention, kLayers };

enum class Supercomputer : uint8_t { kSelene, kFrontier };

struct PublishedRun {
  std::string name;
  PublishedModel model;
  int tp = 1, pp = 1, dp = 1;
  int chunks = 1;     // of the model on each stage
  int64_t batch = 1;  // samples of a step
  int64_t micro = 1;  // samples of a micro-batch
  Recomputed recomputed = Recomputed::kLayers;
  bool sequence_parallel = false;
  Supercomputer machine = Supercomputer::kSelene;
  // Whether products of gradients of weights add to what is there. Megatron-LM does so since 2022-02-13 (commit
  // 83b1e42f30): later than the runs of 2104.04473, earlier than those of 2205.05198.
  bool products_add = true;
  double seconds = 0;  // of a step, as measured; 0: unknown
  double gib = 0;      // of activations, on the device that has most; 0: unknown

  int64_t micro_batches() const { return batch / (micro * dp); }
  int ranks() const { return tp * pp * dp; }
  // Operations of a step on a device, as 2104.04473 counts them: each layer's forward twice where it is computed again.
  double flops() const;
};

inline constexpr int64_t kPublishedVocabulary = 51'200, kPublishedContext = 2'048;
inline constexpr double kPublishedDropout = 0.1;

std::vector<PublishedRun> SeleneRuns();
std::vector<PublishedRun> TableOneRuns();
std::vector<PublishedRun> ActivationRuns();

// What a paper says of several runs: which is the fastest per operation, or that they come in this order.
struct PublishedOrder {
  enum class Claim : uint8_t {
    kFirstIsBest,
    kFalls,
    kKept,  // from the first run to the last but one less than half is lost of what the last one loses
  };
  std::string name, what;
  Claim claim;
  std::vector<PublishedRun> runs;
};
std::vector<PublishedOrder> PublishedOrders();

}  // namespace oneflow
