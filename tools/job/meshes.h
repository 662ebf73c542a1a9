// The meshes that a job config describes, and the devices that they take together.
//
//   mesh { dp: 2 tp: 2 }                                       ranks 0-3: train, and what has no mesh of its own
//   evaluate { mesh { tp: 4 } }                                ranks 0-3
//   generate { mesh { tp: 2 } ranks { first: 4 } }             ranks 4-5; the job has 6 devices
#pragma once

#include <map>
#include <string>

#include "compiler/plan_mesh.h"
#include "tools/job/config.h"

namespace oneflow {

// Devices of one mesh; 0 if there are more than 2^31.
int64_t NumDevices(const pb::Mesh& mesh);
// Devices of the job: those of all its meshes, and all of the hosts that one names. 0 if there are more than 2^31.
int64_t NumDevices(const pb::JobConfig& config);

// How many hosts the message stands for.
int64_t NumHosts(const pb::Hosts& group);
// Devices on each of them; where it does not say so, the job's divided among all hosts, rounded up.
int64_t DevicesOnEach(const pb::Hosts& group, const pb::JobConfig& config);

// The axes of more than one device. REQUIRES: no axis has more than 4096.
absl::StatusOr<Mesh> ToMesh(const pb::Mesh& mesh);
// The meshes of the plans that have one of their own, by plan. InvalidArgument naming field and line if an axis or a
// rank is out of range, a host is not there, or the hosts have too few devices for it.
absl::StatusOr<std::map<std::string, PlanMesh>> OwnMeshes(const SourcedConfig& config);

}  // namespace oneflow
