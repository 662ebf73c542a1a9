// From numbers that instances of a plan's actors and registers have in the whole job to those of the plan itself.
#pragma once

#include <utility>
#include <vector>

#include "proto/plan.pb.h"

namespace oneflow {

class ClassIds {
 public:
  explicit ClassIds(const pb::ClassPlan& plan);

  // REQUIRES (both): an instance has that number.
  int ActorClass(int id) const { return Find(actors_, id); }
  int RegisterClass(int id) const { return Find(registers_, id); }

 private:
  using Firsts = std::vector<std::pair<int, int>>;  // first number of an instance, which it is an instance of
  static int Find(const Firsts& firsts, int id);

  Firsts actors_, registers_;
};

}  // namespace oneflow
