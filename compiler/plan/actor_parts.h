// What an actor's acts are of a step, for people who ask where time goes: which work they do for which chunk of the
// model, and of boxings which mesh axes they cross.
//
//   forward.1 h0/q (+80)        a chain of one device's plan may have all of it: forward, backward, update
//     forward 31%  backward 66%  update 3%        then they share its time as a roofline predicts it
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/physical_plan.h"
#include "oneflow_core/op.h"

namespace oneflow {

// What one role in it takes of a chain.
struct ActorPart {
  Role role = Role::kForward;
  int chunk = -1;  // as Node::chunk
  double seconds = 0;
};

// By role, then by chunk; of the largest shards.
std::vector<ActorPart> PartsOf(const Graph& graph, const Chain& chain, const OpRegistry& ops,
                               const DeviceSpeeds& device);

// Names of the mesh axes along which ranks differ that exchange anything in the boxings of a chain, in the order of the
// mesh.
std::vector<std::string> AxesCrossed(const Graph& graph, const Chain& chain, const PlanMesh& mesh);

}  // namespace oneflow
