// What a batch system says of the task that this process is: which of how many, on which machines.
//
//   srun, sbatch           SLURM_PROCID, SLURM_STEP_NODELIST, ...
//   mpirun of Open MPI     OMPI_COMM_WORLD_RANK, ...
//   mpiexec of MPICH       PMI_RANK, ...
//   a job of Kubernetes    JOB_COMPLETION_INDEX, and ONEFLOW_TASKS, ONEFLOW_FIRST of our manifest
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct Allocation {
  std::string launcher;  // "Slurm", for people
  int task = 0;          // this one
  int tasks = 1;
  int nodes = 1;  // that have as many tasks each, or else uneven
  bool uneven = false;
  std::string first;       // name or address of the machine of task 0
  int cores = 0;           // of this task; 0: unknown
  int number = 0;          // of the job and step, from 0 to 9,999: those of one machine at a time hardly ever share one
  bool restarted = false;  // the batch system has begun the same job before
};

// The value of a variable of the environment; null if there is none.
using Environment = std::function<const char*(const char* name)>;

// FailedPrecondition if no batch system has begun this process, or one says less than is needed; InvalidArgument naming
// a variable whose value makes no sense.
absl::StatusOr<Allocation> FindAllocation(const Environment& environment);

// The first of a list of hosts as Slurm writes it: "n[007-9,12],m" is "n007". Empty if there is none.
std::string FirstHost(absl::string_view hosts);

}  // namespace oneflow
