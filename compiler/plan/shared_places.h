// Places for registers that take turns (direct_order.h): units that are loaded one after the other into the same bytes,
// and large ones into those of several.
#pragma once

#include <utility>
#include <vector>

#include "compiler/plan/direct_order.h"
#include "compiler/plan/packing.h"

namespace oneflow {

struct SharedPlace {
  struct Register {
    int id = -1;
    int64_t at = 0;  // from the place's beginning
    Claim claim;
  };
  Claim claim;  // of all
  std::vector<Register> registers;
};

// Each register, in the order given, gets the lowest offset in the place in which it takes the least more memory for so
// long, or a place of its own: where they would lose more than `most_lost` of what the register takes by itself. The
// square of their number.
std::vector<SharedPlace> PlaceInTurn(const std::vector<std::pair<int, Claim>>& registers, const DirectOrder& order,
                                     double most_lost);

}  // namespace oneflow
