#include "compiler/lower/compile.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/sha.h>

#include <algorithm>
#include <set>

#include "absl/strings/escaping.h"
#include "compiler/boxed_graph.h"
#include "compiler/job_graphs.h"
#include "compiler/local_training.h"
#include "compiler/lower/library_memory.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/memory_cap.h"
#include "compiler/lower/offload_cap.h"
#include "compiler/lower/plan_memory.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/lower/wait_graph.h"
#include "compiler/plan/build_plan.h"
#include "compiler/plan/memory.h"
#include "compiler/plan/memory_check.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr int kSlotsOfTold = 64;  // a few bytes each

absl::StatusOr<PhysicalPlan> PlanOne(const PlanInput& input) {
  OF_ASSIGN_OR_RETURN(PhysicalPlan plan, BuildPhysicalPlan(input, input.graph.name()));
  OF_RETURN_IF_ERROR(AssignMemory(input, plan));
  OF_RETURN_IF_ERROR(CheckMemory(input, plan));
  return plan;
}

// Acts of one queue run one at a time, so what holds of acts on several queues holds of them on one.
void PutBeside(pb::ClassPlan& plan) {
  plan.set_beside(true);
  for (pb::ClassActor& actor : *plan.mutable_actors()) actor.set_queue(kBesideQueue);
}

// A plan that runs beside those that train has none of their variables: each is proved for itself, and nothing of one
// can wait for the other, or overwrite what it reads.
absl::Status CheckBeside(const std::vector<BoxedGraph>& program, const OpRegistry& ops) {
  std::set<std::string> beside;
  const auto for_variables = [&](const Graph& graph, const auto& fn) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (ops.Is(graph.node(id).op, OpKind::kVariable)) fn(graph.node(id).name);
    }
  };
  for (const BoxedGraph& boxed : program) {
    if (boxed.beside) for_variables(boxed.graph, [&](const std::string& name) { beside.insert(name); });
  }
  absl::Status status;
  for (const BoxedGraph& boxed : program) {
    if (!boxed.graph.is_trained()) continue;
    for_variables(boxed.graph, [&](const std::string& name) {
      if (beside.count(name) == 0) return;
      status.Update(absl::InternalError(
          absl::StrCat("graph '", boxed.graph.name(), "' has variable '", name, "', which a plan beside it has too")));
    });
  }
  return status;
}

// Checks that options `given` by the names of plans are for plans that exist.
template <typename ByName>
absl::Status CheckHavePlans(const Program& program, const ByName& by_name, absl::string_view given) {
  for (const auto& entry : by_name) {
    const auto named = [&](const Graph& graph) { return graph.name() == entry.first; };
    if (std::any_of(program.begin(), program.end(), named)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(given, " given for plan '", entry.first, "', but there is no such graph"));
  }
  return absl::OkStatus();
}

// All graphs of the job behind the passes.
absl::StatusOr<std::vector<BoxedGraph>> BoxGraphsOf(const Program& program, const CompileOptions& options,
                                                    const OpRegistry& ops, std::vector<std::string>* warnings) {
  VariableDists dists;
  std::vector<BoxedGraph> boxed;
  OF_RETURN_IF_ERROR(ForEachGraph(program, options, ops, dists, [&](const Graph& graph) -> absl::Status {
    const int micro_batches = options.StepOf(graph).micro_batches;
    OF_ASSIGN_OR_RETURN(Graph result, RunPasses(graph, options, ops, dists, nullptr, warnings));
    const bool beside = options.local_training.has_value() && options.local_training->late &&
                        options.device == DeviceKind::kCpu && graph.name() == kOuterPlan;
    boxed.push_back({std::move(result), micro_batches, beside});
    return absl::OkStatus();
  }));
  return boxed;
}

}  // namespace

absl::StatusOr<pb::PlanSet> CompileBoxed(const std::vector<BoxedGraph>& program, const CompileOptions& options,
                                         const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckHosts(options));
  OF_RETURN_IF_ERROR(CheckBeside(program, ops));
  const Topology topology = JobTopology(options);
  Boxings boxings(topology, options.device);
  std::vector<const Graph*> graphs;
  for (const BoxedGraph& boxed : program) graphs.push_back(&boxed.graph);
  const RankClasses classes(graphs, options.NumRanks());
  OF_ASSIGN_OR_RETURN(const VariableTable variables, LayOutVariables(graphs, ops, classes, boxings));

  pb::PlanSet set;
  set.set_version(kPlanVersion);
  set.set_job(options.job);
  set.set_seed(options.seed);
  set.set_tf32(options.precision.tf32);
  for (const PluginOfJob& plugin : options.plugins) {
    pb::PluginFile& file = *set.add_plugins();
    file.set_path(plugin.path);
    file.set_sha256(plugin.sha256);
  }
  PlanTables tables(set);
  std::vector<PhysicalPlan> plans;
  const bool any_beside =
      std::any_of(program.begin(), program.end(), [](const BoxedGraph& boxed) { return boxed.beside; });
  for (const BoxedGraph& boxed : program) {
    const std::string where = absl::StrCat("graph '", boxed.graph.name(), "'");
    const StepOptions step = options.StepOf(boxed.graph);
    const Schedule* const schedule = step.pipeline.num_ranks() > 0 ? &step.pipeline : nullptr;
    OF_ASSIGN_OR_RETURN_AT(
        const ChainGraph chains,
        BuildChains(boxed.graph, ops, topology, schedule, boxed.micro_batches, options.overlaps_gradients), where);
    const auto slots = options.slots.find(boxed.graph.name());
    const PlanInput input{boxed.graph,
                          ops,
                          options.MeshOf(boxed.graph.name()),
                          classes,
                          chains,
                          boxings,
                          variables,
                          boxed.micro_batches,
                          options.kernel_scratch,
                          schedule,
                          slots == options.slots.end() ? nullptr : &slots->second,
                          topology.device(),
                          boxed.graph.is_trained() && any_beside ? kSlotsOfTold : 1};
    OF_ASSIGN_OR_RETURN_AT(PhysicalPlan plan, PlanOne(input), where);
    plan.beside = boxed.beside;
    OF_ASSIGN_OR_RETURN_AT(pb::ClassPlan lowered, LowerPlan(input, plan, options.seed, tables), where);
    if (boxed.beside) PutBeside(lowered);
    *set.add_plans() = std::move(lowered);
    plans.push_back(std::move(plan));
  }
  LowerRanks(topology, options.device, classes, variables, plans, set);
  if (options.checkpoints) AddCheckpointCopies(classes, variables, set);
  LowerVariables(variables, tables, set);
  OF_RETURN_IF_ERROR(CheckDeviceMemory(set, topology));
  for (pb::ClassPlan& plan : *set.mutable_plans()) {
    OF_RETURN_IF_ERROR_AT(OrderPlanCalls(set, plan), absl::StrCat("plan '", plan.name(), "'"));
    OF_RETURN_IF_ERROR(CheckPlanLive(plan));
  }
  if (options.device == DeviceKind::kCpu) return set;
  OF_RETURN_IF_ERROR(AddLibraryMemory(options.library_bytes_per_device, set));
  OF_RETURN_IF_ERROR(CheckDeviceMemory(set, topology));  // with the memory of libraries
  return set;
}

absl::StatusOr<pb::PlanSet> Compile(const Program& program, const CompileOptions& options, const OpRegistry& ops,
                                    std::vector<std::string>* warnings) {
  OF_RETURN_IF_ERROR(CheckHavePlans(program, options.meshes, "a mesh is"));
  OF_RETURN_IF_ERROR(CheckHavePlans(program, options.slots, "slots are"));
  OF_RETURN_IF_ERROR(CheckHavePlans(program, options.own_steps, "steps are"));
  const BoxGraphs box = [&](const CompileOptions& with, std::vector<std::string>* of_these) {
    return BoxGraphsOf(program, with, ops, of_these);
  };
  if (options.recompute.memory_bytes > 0) return CompileUnderCap(box, options, ops, warnings);
  if (HasOffloadCap(options)) return CompileUnderOffloadCap(box, options, ops, warnings);
  OF_ASSIGN_OR_RETURN(const std::vector<BoxedGraph> boxed, box(options, warnings));
  return CompileBoxed(boxed, options, ops);
}

absl::StatusOr<std::string> SerializePlan(const pb::PlanSet& plan) {
  const size_t size = plan.ByteSizeLong();
  if (size > static_cast<size_t>(INT32_MAX)) {
    return absl::ResourceExhaustedError(absl::StrCat("the plan of job '", plan.job(), "' takes ", size,
                                                     " bytes; one that can be written has at most ", INT32_MAX));
  }
  std::string bytes;
  bool written = false;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    written = plan.SerializeToCodedStream(&coded);
  }
  if (!written || bytes.size() != size) {
    return absl::InternalError(
        absl::StrCat("the plan of job '", plan.job(), "': ", bytes.size(), " of ", size, " bytes were written"));
  }
  return bytes;
}

std::string PlanHash(const std::string& serialized) { return Sha256(serialized); }

std::string Sha256(absl::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

}  // namespace oneflow
