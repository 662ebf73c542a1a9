#include "tools/sim/class_ids.h"

#include <algorithm>
#include <cstdint>

namespace oneflow {

ClassIds::ClassIds(const pb::ClassPlan& plan) {
  for (int a = 0; a < plan.actors_size(); ++a) actors_.push_back({plan.actors(a).first_id(), a});
  for (int r = 0; r < plan.registers_size(); ++r) registers_.push_back({plan.registers(r).first_id(), r});
  std::sort(actors_.begin(), actors_.end());
  std::sort(registers_.begin(), registers_.end());
}

int ClassIds::Find(const Firsts& firsts, int id) {
  return (std::upper_bound(firsts.begin(), firsts.end(), std::pair<int, int>(id, INT32_MAX)) - 1)->second;
}

}  // namespace oneflow
