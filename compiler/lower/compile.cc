#include "compiler/lower/compile.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "compiler/boxed_graph.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/wait_graph.h"
#include "compiler/plan/build_plan.h"
#include "compiler/plan/memory.h"
#include "compiler/plan/memory_check.h"

namespace oneflow {
namespace {

absl::StatusOr<PhysicalPlan> PlanOne(const PlanInput& input) {
  OF_ASSIGN_OR_RETURN(PhysicalPlan plan, BuildPhysicalPlan(input, input.graph.name()));
  AssignMemory(input, plan);
  OF_RETURN_IF_ERROR(CheckMemory(input, plan));
  return plan;
}

}  // namespace

absl::StatusOr<pb::PlanSet> CompileBoxed(const std::vector<BoxedGraph>& program, const CompileOptions& options,
                                         const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(CheckHosts(options));
  const Topology topology = JobTopology(options);
  std::vector<const Graph*> graphs;
  std::vector<Boxings> boxings;
  for (const BoxedGraph& boxed : program) {
    graphs.push_back(&boxed.graph);
    OF_ASSIGN_OR_RETURN_AT(Boxings uses, AnalyseBoxings(boxed.graph, topology, options.device),
                           absl::StrCat("graph '", boxed.graph.name(), "'"));
    boxings.push_back(std::move(uses));
  }
  OF_ASSIGN_OR_RETURN(const VariableTable variables, LayOutVariables(graphs, boxings, topology));

  pb::PlanSet set;
  set.set_version(kPlanVersion);
  set.set_job(options.job);
  set.set_seed(options.seed);
  std::vector<PhysicalPlan> plans;
  Communicators communicators;
  for (size_t i = 0; i < program.size(); ++i) {
    const Graph& graph = program[i].graph;
    const std::string where = absl::StrCat("graph '", graph.name(), "'");
    OF_ASSIGN_OR_RETURN_AT(const ChainGraph chains, BuildChains(graph, ops), where);
    const PlanInput input{graph, ops, options.mesh, topology, chains, boxings[i], variables, program[i].micro_batches};
    OF_ASSIGN_OR_RETURN_AT(PhysicalPlan plan, PlanOne(input), where);
    *set.add_plans() = LowerPlan(input, plan, options.seed, communicators);
    OF_RETURN_IF_ERROR(CheckPlanLive(set.plans(static_cast<int>(i))));
    plans.push_back(std::move(plan));
  }
  LowerRanks(options, variables, plans, set);
  LowerVariables(variables, set);
  LowerCommunicators(communicators, set);
  return set;
}

absl::StatusOr<pb::PlanSet> Compile(const Program& program, const CompileOptions& options, const OpRegistry& ops) {
  VariableDists dists;
  std::vector<BoxedGraph> boxed;
  for (const Graph& graph : program) {
    const int micro_batches = graph.is_trained() ? options.micro_batches : 1;
    OF_ASSIGN_OR_RETURN(Graph result, RunPasses(graph, options, ops, dists));
    boxed.push_back({std::move(result), micro_batches});
  }
  return CompileBoxed(boxed, options, ops);
}

std::string SerializePlan(const pb::PlanSet& plan) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    plan.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::string PlanHash(const std::string& serialized) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(serialized.data()), serialized.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

}  // namespace oneflow
