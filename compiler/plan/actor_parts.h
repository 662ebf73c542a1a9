// Divides the acts of an actor by kind of work, for people who ask where time goes: roles and chunks of the model, and
// for boxings the mesh axes that they cross.
//
//   forward.1 h0/q (+80)        a chain of one device's plan may have all of it: forward, backward, update
//     forward 31%  backward 66%  update 3%        then they share its time as a roofline predicts it
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/physical_plan.h"
#include "oneflow_core/op.h"

namespace oneflow {

// The share of one role in a chain.
struct ActorPart {
  Role role = Role::kForward;
  int chunk = -1;  // as Node::chunk
  double seconds = 0;
};

// By role, then by chunk; of the largest shards.
std::vector<ActorPart> PartsOf(const Graph& graph, const Chain& chain, const OpRegistry& ops,
                               const DeviceSpeeds& device);

// Names of the mesh axes along which the boxings of a chain exchange data, in the order of the mesh.
std::vector<std::string> AxesCrossed(const Graph& graph, const Chain& chain, const PlanMesh& mesh);

}  // namespace oneflow
