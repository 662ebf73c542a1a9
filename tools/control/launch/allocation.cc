#include "tools/control/launch/allocation.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

// Cores that this process may use.
int AllowedCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool Has(const char* name) const { return environment_(name) != nullptr; }
  std::string Text(const char* name) const {
    const char* const value = environment_(name);
    return value == nullptr ? "" : value;
  }
  // Of a variable that has to be there, unless there is an `otherwise`.
  absl::StatusOr<int> Number(const char* name, int least, int otherwise = -1) const {
    if (!Has(name) && otherwise >= 0) return otherwise;
    if (!Has(name)) return absl::FailedPreconditionError(absl::StrCat(name, " is not set"));
    int number = 0;
    if (absl::SimpleAtoi(Text(name), &number) && number >= least) return number;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is '", Text(name), "', which is no number from ", least, " on"));
  }

 private:
  const Environment& environment_;
};

absl::Status Check(const Allocation& allocation) {
  if (allocation.task < allocation.tasks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(allocation.launcher, " says that this is task ", allocation.task, " of ", allocation.tasks));
}

// "2(x3),1": of each node, in order. Empty if it is no such list.
std::vector<int> TasksPerNode(absl::string_view text, int nodes) {
  std::vector<int> counts;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves = absl::StrSplit(part, absl::MaxSplits("(x", 1));
    int count = 0, times = 1;
    if (!absl::SimpleAtoi(halves.first, &count)) return {};
    const absl::string_view number = halves.second.substr(0, halves.second.find(')'));
    if (!number.empty() && (!absl::SimpleAtoi(number, &times) || times < 1 || times > nodes)) return {};
    counts.insert(counts.end(), static_cast<size_t>(times), count);
  }
  return static_cast<int>(counts.size()) == nodes ? counts : std::vector<int>();
}

// What a batch job and a step of it have no number in common with, as far as 10,000 go.
int NumberOf(int job, int step) { return static_cast<int>((int64_t{job} * 7 + step) % 10'000); }

absl::StatusOr<Allocation> OfSlurm(const Variables& variables) {
  Allocation found;
  found.launcher = "Slurm";
  OF_ASSIGN_OR_RETURN(found.task, variables.Number("SLURM_PROCID", 0));
  OF_ASSIGN_OR_RETURN(found.tasks, variables.Number("SLURM_STEP_NUM_TASKS", 1));
  OF_ASSIGN_OR_RETURN(found.nodes, variables.Number("SLURM_STEP_NUM_NODES", 1));
  OF_ASSIGN_OR_RETURN(const int node, variables.Number("SLURM_NODEID", 0));
  OF_ASSIGN_OR_RETURN(const int job, variables.Number("SLURM_JOB_ID", 0));
  // Steps of a batch script itself and the like have numbers near 2^32.
  const int step = variables.Number("SLURM_STEP_ID", 0).value_or(0);
  found.number = NumberOf(job, step);
  OF_ASSIGN_OR_RETURN(const int restarts, variables.Number("SLURM_RESTART_COUNT", 0, 0));
  found.restarted = restarts > 0;
  found.first = FirstHost(variables.Text("SLURM_STEP_NODELIST"));
  if (found.first.empty()) return absl::FailedPreconditionError("SLURM_STEP_NODELIST names no host");
  if (found.task == 0 && node != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "task 0 is on node ", node, " of the step: the others seek it on the first; leave out --distribution"));
  }
  const std::vector<int> counts = TasksPerNode(variables.Text("SLURM_STEP_TASKS_PER_NODE"), found.nodes);
  if (counts.empty() || node >= found.nodes) {
    return absl::InvalidArgumentError(absl::StrCat("SLURM_STEP_TASKS_PER_NODE is '",
                                                   variables.Text("SLURM_STEP_TASKS_PER_NODE"), "' for ", found.nodes,
                                                   " nodes, of which this is ", node));
  }
  found.uneven = std::any_of(counts.begin(), counts.end(), [&](int count) { return count != counts[0]; });
  OF_ASSIGN_OR_RETURN(const int of_node, variables.Number("SLURM_CPUS_ON_NODE", 1, std::max(AllowedCores(), 1)));
  OF_ASSIGN_OR_RETURN(found.cores,
                      variables.Number("SLURM_CPUS_PER_TASK", 1, std::max(of_node / std::max(counts[node], 1), 1)));
  return found;
}

// Open MPI and MPICH do not say where task 0 is, unless all are here.
absl::StatusOr<Allocation> OfMpi(const Variables& variables, const char* launcher, const char* task, const char* tasks,
                                 const char* tasks_here) {
  Allocation found;
  found.launcher = launcher;
  OF_ASSIGN_OR_RETURN(found.task, variables.Number(task, 0));
  OF_ASSIGN_OR_RETURN(found.tasks, variables.Number(tasks, 1));
  OF_ASSIGN_OR_RETURN(const int here, variables.Number(tasks_here, 1));
  found.nodes = (found.tasks + here - 1) / here;
  found.uneven = found.tasks % here != 0;
  if (here == found.tasks) found.first = "127.0.0.1";
  found.cores = std::max(AllowedCores() / here, 1);
  return found;
}

absl::StatusOr<Allocation> OfKubernetes(const Variables& variables) {
  Allocation found;
  found.launcher = "Kubernetes";
  OF_ASSIGN_OR_RETURN(found.task, variables.Number("JOB_COMPLETION_INDEX", 0));
  OF_ASSIGN_OR_RETURN(found.tasks, variables.Number("ONEFLOW_TASKS", 1));
  found.nodes = found.tasks;
  found.restarted = true;  // a pod does not know whether there was one before it
  return found;
}

absl::StatusOr<Allocation> Find(const Variables& variables) {
  if (variables.Has("SLURM_PROCID")) return OfSlurm(variables);
  if (variables.Has("OMPI_COMM_WORLD_RANK")) {
    return OfMpi(variables, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE");
  }
  if (variables.Has("PMI_RANK")) return OfMpi(variables, "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS");
  if (variables.Has("JOB_COMPLETION_INDEX")) return OfKubernetes(variables);
  return absl::FailedPreconditionError(
      "no batch system has begun this process: use srun, mpirun, or `oneflow run` on this machine alone");
}

}  // namespace

std::string FirstHost(absl::string_view hosts) {
  std::string first;
  while (!hosts.empty() && hosts[0] != ',') {
    if (hosts[0] != '[') {
      first += hosts[0];
      hosts.remove_prefix(1);
      continue;
    }
    hosts.remove_prefix(1);
    absl::StrAppend(&first, hosts.substr(0, hosts.find_first_of(",-]")));
    const size_t end = hosts.find(']');
    if (end == absl::string_view::npos) return "";
    hosts.remove_prefix(end + 1);
  }
  return first;
}

absl::StatusOr<Allocation> FindAllocation(const Environment& environment) {
  const Variables variables(environment);
  OF_ASSIGN_OR_RETURN(Allocation found, Find(variables));
  OF_RETURN_IF_ERROR(Check(found));
  if (variables.Has("ONEFLOW_FIRST")) found.first = variables.Text("ONEFLOW_FIRST");
  return found;
}

}  // namespace oneflow
