#include "compiler/plan/shared_places.h"

#include <algorithm>

namespace oneflow {
namespace {

// Bytes for so many ticks of all classes.
double Area(const Claim& claim) {
  double ticks = 0;
  for (const Ticks& x : claim.when) ticks += x.last - x.first + 1;
  return ticks * static_cast<double>(claim.room());
}

Claim Unite(const Claim& place, const Claim& claim, int64_t at) {
  Claim both = place;
  both.num_bytes = std::max(place.num_bytes, at + claim.num_bytes);
  std::vector<Ticks> when(place.when.begin(), place.when.end());
  when.insert(when.end(), claim.when.begin(), claim.when.end());
  Normalize(when);
  both.when.assign(when.begin(), when.end());
  return both;
}

int64_t FirstOffset(const SharedPlace& place, int reg, const Claim& claim, const DirectOrder& order) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const SharedPlace::Register& other : place.registers) {
    if (order.TakeTurns(other.id, reg) || order.TakeTurns(reg, other.id) || !Meet(claim, other.claim)) continue;
    taken.emplace_back(other.at, other.at + other.claim.room());
  }
  std::sort(taken.begin(), taken.end());
  int64_t at = 0;
  for (const auto& [begin, end] : taken) {
    if (at + claim.room() <= begin) break;
    at = std::max(at, end);
  }
  return at;
}

}  // namespace

std::vector<SharedPlace> PlaceInTurn(const std::vector<std::pair<int, Claim>>& registers, const DirectOrder& order,
                                     double most_lost) {
  std::vector<SharedPlace> places;
  for (const auto& [reg, claim] : registers) {
    SharedPlace* best = nullptr;
    SharedPlace::Register there{reg, 0, claim};
    Claim united;
    double least = most_lost * Area(claim);
    for (SharedPlace& place : places) {
      if (place.claim.zone != claim.zone || !Meet(claim, place.claim)) continue;
      const int64_t at = FirstOffset(place, reg, claim, order);
      Claim both = Unite(place.claim, claim, at);
      const double lost = Area(both) - Area(place.claim) - Area(claim);
      if (lost >= least) continue;
      best = &place;
      there.at = at;
      united = std::move(both);
      least = lost;
    }
    if (best == nullptr) {
      places.push_back({claim, {there}});
      continue;
    }
    best->claim = std::move(united);
    best->registers.push_back(std::move(there));
  }
  return places;
}

}  // namespace oneflow
