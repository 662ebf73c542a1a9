// One run of a job on a cluster of this machine, for what it measures.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "tools/bench/bench_case.h"
#include "tools/bench/measurement.h"
#include "tools/job/job.h"

namespace oneflow {

// Warm-up and measured steps, which are the last two phases of a measured job.
void AddMeasuredPhases(int warmup, int steps, pb::JobSpec& spec);

// Runs a job whose last two phases are measured to its end (tools/control/cluster/run_to_end.h): what they say.
absl::StatusOr<Round> RunJob(pb::JobSpec spec, bool profile, const std::atomic<bool>& stop);

// A model of text without a mesh; a constant learning rate, so that the number of steps changes nothing.
struct OwnGpt {
  const char* name;
  const char* model;  // its fields
  int batch;
  const char* learning_rate;
  const char* kind = "gpt";  // or "llama", "bert"
};
inline constexpr OwnGpt kQuickstartModel = {"quickstart", "layers: 4 width: 128 heads: 4 context: 128", 32, "1e-3"};
// GPT-2 124M. Bytes are tokens of its vocabulary too. 1,024 tokens of a step are what llm.c has on a processor.
inline constexpr OwnGpt kGpt2Model = {
    "gpt2-124m", "layers: 12 width: 768 heads: 12 context: 256 vocabulary: 50257 tied_embedding: true", 4, "3e-4"};
// A Llama of 100 million parameters, whose heads share keys and values by three.
inline constexpr OwnGpt kLlamaModel = {"llama-100m",
                                       "layers: 12 width: 768 heads: 12 kv_heads: 4 hidden: 2048 context: 256 "
                                       "vocabulary: 32000 tied_embedding: true",
                                       4, "3e-4", "llama"};
// BERT-base, which predicts every token: what is masked of them changes no work.
inline constexpr OwnGpt kBertModel = {
    "bert-base", "layers: 12 width: 768 heads: 12 context: 128 vocabulary: 30522 mask_rate: 0", 8, "1e-4", "bert"};
// GPT-2 XL, of 1.56 billion parameters: for devices that multiply several hundred times as fast as a processor's core.
inline constexpr OwnGpt kGpt2LargeModel = {
    "gpt2-1.5b", "layers: 48 width: 1600 heads: 25 context: 1024 vocabulary: 50257 tied_embedding: true", 8, "1e-4"};

// Its config as text.
std::string TextOf(const OwnGpt& gpt);

// The config of a job that a case has of its own: `text`, trained on the sample text, with the context's cores for its
// processes, its overrides and its steps. Errors of ParseConfig and ApplyOverride, in which the text is called `name`.
absl::StatusOr<SourcedConfig> OwnConfig(const std::string& text, const std::string& name, int processes,
                                        const BenchContext& context);

// Compiles the job of a config and runs it as RunJob.
absl::StatusOr<Round> RunConfig(const SourcedConfig& config, const BenchContext& context);

}  // namespace oneflow
