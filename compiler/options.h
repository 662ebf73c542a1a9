// What a job asks of the compiler, as plain values (tools/ reads them from a job config).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/kernel_scratch.h"
#include "compiler/plan_mesh.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/tiers.h"
#include "sbp/topology.h"

namespace oneflow {

// How a variable is updated.
struct UpdateOptions {
  std::string rule = "adamw";   // of oneflow_core/optimizer_rules.h
  AttrMap attributes;           // that are not the rule's defaults
  double weight_decay = 0;      // of variables of two or more dimensions
  bool decays_vectors = false;  // of all others too
  double rate = 1;              // times the rate of the schedule
  bool frozen = false;          // not at all: it has no gradient and no state
  bool ascent = false;          // against its gradient: it is a player who wants the loss to be large
  bool is_own_rule = false;     // the rule is for just these variables, whatever the rule says of variables
};

// The variables whose names match (compiler/parameter_groups.h).
struct ParameterGroup : UpdateOptions {
  std::string match;
};

// Thin matrices that are trained beside weights, and instead of them (compiler/adapters.h).
struct AdapterOptions {
  std::vector<std::string> match;  // patterns of the weights that get one
  int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;
  std::vector<std::string> also;  // patterns of weights that are trained themselves
};

// The job's update, of variables that are in no group.
struct OptimizerOptions : UpdateOptions {
  double clip_norm = 0;                // global gradient norm; 0: no clipping (the norm is still measured)
  std::vector<ParameterGroup> groups;  // the first that matches a variable has it
  std::optional<AdapterOptions> adapters;
};

// Moving averages of the weights that are trained (passes/optimizer.cc).
struct AverageOptions {
  std::optional<double> decay;  // none: no averages
  bool evaluate = false;        // graphs without a loss read them instead of the weights (passes/read_averages.cc)
};

struct ScheduleOptions {
  double learning_rate = 1e-3;
  std::string kind = "constant";  // of oneflow_core/rate_schedule_table.h
  AttrMap fields;                 // those that the schedule reads beside these (oneflow_core/rate_schedules.h)
};

// The values that backward computes again instead of keeping them.
struct RecomputeOptions {
  std::string what;  // the kind of segments (graph.h); empty: none
  int first = 0;     // only the first segments of every chunk, this many; 0: all
  // Values gathered from other ranks in forward, which take more memory than shards, are gathered again.
  bool gathers = false;
  // A recomputed segment runs as a whole, not only the part that backward needs: as systems do that call forward again.
  bool whole = false;

  // The most bytes of a device; 0: any. Which segments are computed again follows from it (lower/memory_cap.h).
  int64_t memory_bytes = 0;
  std::optional<std::set<int>> segments = {};  // only these, by their numbers in the graph; none: all

  bool any() const { return !what.empty() || gathers; }
};

// Where tokens lie split along axes for sequences, attention is computed in rings (passes/ring_attention.cc) or by
// other layouts. Cost chooses of those that this leaves. kOuter: in rings, but along the last of these axes in none.
enum class RingUse : uint8_t { kByCost, kWherePossible, kOuter, kNever };

// Ranks along an axis keep parts of the model's state instead of copies (ZeRO).
struct ZeroOptions {
  int stage = 0;           // 1: weights and optimizer state, 2: sums of gradients too, 3: weights are gathered per use
  std::string axis;        // its name, or a role: all axes that have it
  int prefetch = 1;        // of stage 3: units that are gathered before those in use
  int64_t unit_bytes = 0;  // of stage 3: bytes of a unit at which it is full; 0: as many as a bucket's (plan/buckets.h)
  bool keeps_gathered = false;  // of stage 3: from forward to backward
  bool sums_once = false;       // gradients are summed over ranks once a step, not in every micro-batch
};

// What lies in a tier of memory below the device's while nothing computes with it (passes/assign_tiers.cc, offload.cc,
// offload_activations.cc).
struct OffloadOptions {
  enum class What : uint8_t { kWeights, kOptimizer, kActivations, kGradients };
  What what = What::kOptimizer;
  const TierKind* tier = nullptr;
  int prefetch = 1;                 // units that are loaded before those in use
  int64_t unit_bytes = 32'000'000;  // at which a unit is full, which is loaded at once
  // Of a variable, on all ranks together, or of a rank's part of an activation: smaller ones stay on the device.
  int64_t least_bytes = 0;
  // Only if a plan without it takes more bytes of a device (lower/offload_cap.h); 0: in any case.
  int64_t memory_bytes = 0;
};

// The floating types in which the job computes (passes/mixed_precision.cc). Variables are f32 in any case.
struct PrecisionOptions {
  DType compute = DType::kFloat32;     // of products and the ops that follow them, unless the model says otherwise
  DType reduce = DType::kFloat32;      // of addends on several ranks
  DType accumulate = DType::kFloat32;  // of gradients' sums over micro-batches; narrow: the type of `reduce`
  // The scale of the loss where something is computed in f16 (passes/loss_scale.h): its first value, and the number of
  // steps without overflow after which it doubles.
  double initial_scale = 65536;
  int64_t growth_interval = 2000;
  bool tf32 = false;  // products of f32 on cuda devices may round their operands to TF32
};

// Variables whose gradients travel with another number of the codec, or exactly.
struct CompressGroup {
  std::string match;  // a pattern of names (parameter_groups.h)
  double parameter = 0;
  bool exact = false;
};

// The number of each matrix is chosen while the job runs, by the errors that codes would make (code_choices.h).
struct ChoiceOptions {
  double low = 0.5, high = 2;  // candidates are from this many times its usual number to this many times
  double alpha = 1;            // of the errors that the usual numbers would make
  bool squared = true;         // errors are added up by their squares
  bool relative = false;       // to the gradient of each matrix
  // Accordion: the usual code of a matrix is its smallest candidate while its gradient's norm has changed by less than
  // so much of it since the last choice, else its largest; 0: it is the one of `parameter`.
  double accordion = 0;
};

// Values that travel as levels of few bits (passes/code_boxings.cc).
struct LevelOptions {
  int64_t bits = 0;      // 1 to 8; 0: they travel as they are
  int64_t bucket = 128;  // elements that share a range, at most
};

// Gradients travel along an axis as codes (passes/edges/codec.h).
struct CompressOptions {
  std::string axis;                        // its name, or a role of which the mesh has one axis
  std::string codec;                       // "POWERSGD", ...; empty: gradients are exact
  double parameter = 0;                    // of the codec: its rank, density, ...
  int64_t bucket = 128;                    // elements that share a range, of a codec that quantises: a multiple of 8
  std::vector<CompressGroup> groups = {};  // a variable has the first whose pattern matches its name
  std::optional<ChoiceOptions> choice = {};
  std::set<std::string> exact = {};    // plans whose gradients are summed exactly: of the beginning
  std::set<std::string> windows = {};  // plans of the steps whose gradients errors are measured on
  // What is coded is the difference to a shift that every rank learns from what it sent: shift += so much of it
  // (DIANA).
  double shift_rate = 0;
  // What is coded is the difference to the gradient at the anchor (points.h).
  bool from_anchor = false;
  // That gradient is taken of a step's own batch too, before the step.
  bool of_batches = false;
  bool own_seeds = false;    // every rank draws for itself
  int64_t participants = 0;  // ranks that send a code, drawn anew in each exchange; 0: all
  LevelOptions weights;      // that lie split along the axis, where they are gathered
  LevelOptions stages;       // what micro-batches send from stage to stage
};

// Ranks along an axis train by themselves, each group on its own samples, and take the mean of their weights now and
// then (compiler/local_training.h).
struct LocalTrainingOptions {
  std::string axis;     // its name, or a role of which the mesh has one axis
  bool late = false;    // the mean counts a round later, so that it travels while the next one is computed
  double rate = 1;      // of the outer step, alpha
  double momentum = 0;  // beta
  bool nesterov = false;
  std::string penalty = "none";  // of what is late: "none", "const" or "gap"
  double divisor = 1;            // of "const"
  double clip = 0;               // the most that an element of the outer step may be; 0: anything
  bool own_data = false;         // each group reads a part of the data of its own
  std::set<std::string> exact;   // plans whose gradients are summed along the axis in every step: of the beginning
};

// A library that defines ops of the job: its absolute path, and the SHA-256 of its bytes in hex digits.
struct PluginOfJob {
  std::string path, sha256;
};

// A step of a graph with a loss, as in CompileOptions.
struct StepOptions {
  int micro_batches = 1;
  Schedule pipeline;
};

struct CompileOptions {
  std::string job;
  std::vector<PluginOfJob> plugins;  // the plan names them for those who run it
  Mesh mesh;                         // of every plan without its own; it lies on ranks 0 .. size-1
  // Meshes of plans that have their own, by the name of the graph. The first graph to use a variable decides its home;
  // plans on other meshes read it from there by boxing.
  std::map<std::string, PlanMesh> meshes;
  int num_ranks = 0;  // of the job; 0: as many as the meshes need
  // Hosts take ranks in order; each host divides its ranks into processes of this size.
  int ranks_per_process = 1;
  std::vector<HostGroup> hosts;  // empty: one host with room for all ranks, usual devices, unknown memory
  DeviceKind device = DeviceKind::kCpu;
  int64_t variable_bytes_per_device = 0;  // limit of the variables on one rank; 0: none
  int64_t memory_bytes_per_device = 0;    // limit of all memory that layouts decide (select/memory_demand.h); 0: none
  // Memory of libraries on each cuda device beside the plan; none: the estimate of lower/library_memory.h.
  std::optional<int64_t> library_bytes_per_device;
  int micro_batches = 1;  // per step, for graphs with a loss
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  AverageOptions average;
  // The pipeline of graphs with a loss, and the chunks of their models. Without ranks: one chunk for each stage, and
  // the order follows from credits (plan/credits.h).
  Schedule pipeline;
  // Graphs with a loss whose steps are others, by name.
  std::map<std::string, StepOptions> own_steps;
  // The share of the work of each chunk, for plans with as many chunks; empty: equal shares.
  std::vector<double> shares;
  // By plan and register: slots instead of those that credits give.
  std::map<std::string, std::map<std::string, int>> slots;
  RecomputeOptions recompute;  // of graphs with a loss
  PrecisionOptions precision;
  std::optional<CompressOptions> compress;             // none: gradients are summed exactly
  std::optional<LocalTrainingOptions> local_training;  // none: all ranks take every step together
  std::optional<ZeroOptions> zero;                     // none: ranks that read other samples have copies of the state
  std::vector<OffloadOptions> offload;                 // at most one of each kind
  RingUse rings = RingUse::kByCost;
  bool sequence_parallel = false;  // values between products with split weights lie split by tokens
  uint64_t seed = 1;
  // Scratch memory of the kernels that will run; the plan reserves it. Empty: kernels allocate their own at load.
  KernelScratch kernel_scratch;
  // Fuse ops where the device has a kernel for the whole (oneflow_core/fusions.h).
  bool fuse = true;
  // Gradients travel while backward continues; otherwise all at once behind it. For comparisons with other systems.
  bool overlaps_gradients = true;
  // With `fuse`, products add to the sums of micro-batches themselves. For comparisons with other systems.
  bool adds_in_products = true;
  // Keeps every gradient of the last step in a variable "<name>.grad", saved with the weights' file of gradients.
  bool keep_gradients = false;
  // Compares all copies of every tensor before they are read, while the job runs: a debugging aid.
  bool check_replicas = false;
  // The job saves checkpoints: every rank has a copy, in the memory of its host, of the part that it writes.
  bool checkpoints = false;

  PlanMesh MeshOf(const std::string& graph) const;
  // The step of a graph: of one without a loss it has one micro-batch and no schedule.
  StepOptions StepOf(const Graph& graph) const;
  int NumRanks() const;
};

// What the job asks for of that kind; null: that it stays on the device.
inline const OffloadOptions* OffloadOf(const CompileOptions& options, OffloadOptions::What what) {
  for (const OffloadOptions& option : options.offload) {
    if (option.what == what) return &option;
  }
  return nullptr;
}

// The tier in which a variable of that kind and type lies; null: it stays on the device. Numbers, such as that of the
// step, stay: all of the update reads them.
inline const TierKind* TierFor(const CompileOptions& options, OffloadOptions::What what, const TensorType& type) {
  const OffloadOptions* const offload = OffloadOf(options, what);
  if (offload == nullptr || type.shape.rank() == 0 || type.num_bytes() < offload->least_bytes) return nullptr;
  return offload->tier;
}

// The graphs of one job over one set of variables; names are unique. A graph with a loss is trained.
using Program = std::vector<Graph>;

}  // namespace oneflow
