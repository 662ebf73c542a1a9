// Does the work of the acts of one rank: binds the plan's instructions to kernels, sources and memory once, at load, so that an act
// only fills in which slots it uses and calls functions.
//
//   load:  instruction ──► kernel, attributes, shapes, operand ──► base pointer, slot stride, port
//   act:   pointer = base + slot * stride;  kernel(args)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actor/actor.h"
#include "actor/collective/collectives.h"
#include "actor/data/source.h"
#include "actor/engine.h"
#include "actor/memory.h"
#include "kernels/device.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Does an actor's current act. What a worker thread needs of an Executor.
class ActRunner {
 public:
  virtual ~ActRunner() = default;
  virtual absl::Status RunAct(const Actor& actor) = 0;
};

// Opened data sources, shared by the ranks of a process: equal attributes, one source. Used while loading only.
class SourceCache {
 public:
  absl::StatusOr<std::shared_ptr<Source>> Open(const AttrMap& attributes);

 private:
  std::vector<std::pair<AttrMap, std::shared_ptr<Source>>> sources_;
};

class Executor : public ActRunner {
 public:
  struct Context {
    const pb::PlanSet& plans;
    int rank = 0;
    DeviceContext& device;
    const JobMemory& memory;
    SourceCache& sources;
    Collectives* collectives = nullptr;            // null: there are none
    const std::function<void(Fetched)>& on_fetch;  // empty: values are dropped
    bool profile = false;                          // time every instruction
  };

  // Binds all instructions of the rank's actors. Everything in `context` is borrowed. REQUIRES: the plans passed CheckPlanSet and all
  // memory is in place. Unimplemented if the device has no kernel for an instruction or not for its shapes, ResourceExhausted
  // if scratch memory cannot be had, else as OpenSource. Errors name plan, actor, node, source line, rank and device.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Context& context);
  ~Executor() override;

  // On the rank's worker thread. Internal, or what a source says, annotated as above.
  absl::Status RunAct(const Actor& actor) override;

  int64_t scratch_bytes() const;
  // Read so far from other ranks' memory by copies, or received in collectives. Any thread.
  int64_t bytes_moved() const;
  // What instructions took so far, by op; empty without `profile`. Any thread.
  std::vector<OpTime> op_times() const;

 private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
