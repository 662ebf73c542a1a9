// What a job asks of the compiler, as plain values (tools/ reads them from a job config).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel_scratch.h"
#include "compiler/plan_mesh.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/mesh.h"
#include "sbp/topology.h"

namespace oneflow {

struct OptimizerOptions {
  enum class Kind { kAdamW, kSgd } kind = Kind::kAdamW;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // AdamW
  double momentum = 0;                               // SGD
  bool nesterov = false;
  double weight_decay = 0;  // applied to variables of two or more dimensions
  double clip_norm = 0;     // global gradient norm; 0: no clipping (the norm is still measured)
};

struct ScheduleOptions {
  double learning_rate = 1e-3;
  std::string kind = "constant";  // "constant", "cosine", "linear"
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double min_ratio = 0;  // final learning rate as a fraction of learning_rate
};

// What backward computes again instead of keeping it.
struct RecomputeOptions {
  std::string what;  // of segments of this kind (graph.h); empty: nothing
  int first = 0;     // of those only the first so many of every chunk; 0: all
  // What forward has gathered from other ranks, so that a rank holds more of it, is gathered again.
  bool gathers = false;
  // Of a segment that is run again all of it, and not only what backward needs: as systems do that call forward anew.
  bool whole = false;

  bool any() const { return !what.empty() || gathers; }
};

// In which floating types the job computes (passes/mixed_precision.cc). Variables are f32 in any case.
struct PrecisionOptions {
  DType compute = DType::kFloat32;  // of products, and of what follows from them, unless the model says otherwise
  DType reduce = DType::kFloat32;   // of addends that several ranks have
  // Of the loss, where something is computed in f16 (passes/loss_scale.h): at first, and after how many steps that were
  // not skipped it is doubled.
  double initial_scale = 65536;
  int64_t growth_interval = 2000;
  bool tf32 = false;  // what is multiplied of f32 on cuda devices may be rounded to TF32
};

struct CompileOptions {
  std::string job;
  Mesh mesh;  // of every plan that has none of its own; it lies on ranks 0 .. size-1
  // Of plans that have one of their own, by the name of the graph. The first graph to use a variable decides where it
  // lies: that is its home, from which plans on other meshes read it by boxing.
  std::map<std::string, PlanMesh> meshes;
  int num_ranks = 0;  // of the job; 0: as many as the meshes need
  // Ranks are given to hosts in their order, and on each to processes in consecutive groups of this size.
  int ranks_per_process = 1;
  std::vector<HostGroup> hosts;  // empty: one host that has room for all ranks, with usual devices, of unknown memory
  DeviceKind device = DeviceKind::kCpu;
  int64_t variable_bytes_per_device = 0;  // the most that variables may take on one rank; 0: no limit
  int64_t memory_bytes_per_device = 0;    // of all that layouts decide (select/memory_demand.h); 0: no limit
  // What libraries take of each cuda device beside the plan; none: what lower/library_memory.h expects.
  std::optional<int64_t> library_bytes_per_device;
  int micro_batches = 1;  // per step, for graphs with a loss
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  // Of graphs with a loss, and into which chunks their models are cut. Without ranks: one chunk for each stage, and the
  // order follows from credits (plan/credits.h).
  Schedule pipeline;
  // Of a model's work, the part of each chunk, in plans that have as many; empty: all the same.
  std::vector<double> shares;
  // By plan and register: slots instead of those that credits give.
  std::map<std::string, std::map<std::string, int>> slots;
  RecomputeOptions recompute;  // of graphs with a loss
  PrecisionOptions precision;
  uint64_t seed = 1;
  // Of the kernels that will run: the plan sets it aside. None: they take their own when they are loaded.
  KernelScratch kernel_scratch;
  // Ops for which the device has a kernel that does them at once are fused (passes/fusion_patterns.h).
  bool fuse = true;
  // Gradients travel while backward goes on; else behind it, all at once. For comparisons with other systems.
  bool overlaps_gradients = true;
  // Products add to the sums of micro-batches themselves, if `fuse`. For comparisons with other systems.
  bool adds_in_products = true;
  // Keeps every gradient of the last step in a variable "<name>.grad", saved with the weights' file of gradients.
  bool keep_gradients = false;
  // Compares all copies of every tensor while the job runs, before they are read: a debugging aid.
  bool check_replicas = false;
  // The job saves checkpoints: every rank has a copy, in its host's memory, of what it writes of them.
  bool checkpoints = false;

  PlanMesh MeshOf(const std::string& graph) const;
  int NumRanks() const;
};

// The graphs of one job over one set of variables; names are unique. A graph with a loss is trained.
using Program = std::vector<Graph>;

}  // namespace oneflow
