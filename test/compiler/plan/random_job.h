// Random boxed graphs on up to 16 ranks: layouts, boxings, micro-batches and overwritten variables in any combination.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "test/compiler/plan/graph_kit.h"

namespace oneflow::testing {

struct RandomJob {
  Graph graph;
  CompileOptions options;
};

class RandomJobMaker {
 public:
  explicit RandomJobMaker(uint32_t seed) : random_(seed), kit_("random") {}

  RandomJob Make() {
    const int micro_batches = 1 + Pick(3);
    std::vector<Found> variables, slow, fast;
    for (int i = 0; i < 3; ++i) {
      const std::string place = Place();
      const std::string dist = place + Layout(place);
      variables.push_back({kit_.Variable(absl::StrCat("v", i), {5, 3}, dist), place, dist});
    }
    slow = variables;
    Grow(Rate::kStep, slow, 6);
    if (micro_batches > 1) {
      fast = slow;
      Grow(Rate::kMicroBatch, fast, 20);
      Accumulate(fast, slow);
    }
    Grow(Rate::kStep, slow, 10);
    Overwrite(variables, slow);
    RandomJob job{std::move(kit_.graph()), OptionsFor({1, kRanks, micro_batches}, 1 << Pick(4))};
    return job;
  }

 private:
  static constexpr int kRanks = 16;
  struct Found {
    ValueId value;
    std::string place, dist;
  };

  int Pick(size_t n) { return static_cast<int>(random_() % n); }
  std::string Place() {
    static constexpr const char* kPlaces[] = {"[dp=2]{0,1}",     "[dp=2]{2,3}",
                                              "[dp=2]{1,2}",     "[dp=2,tp=2]{4,5,6,7}",
                                              "[dp=4]{4,5,6,7}", "[dp=8]{8,9,10,11,12,13,14,15}"};
    return kPlaces[Pick(std::size(kPlaces))];
  }
  std::string Layout(const std::string& place) {
    static constexpr const char* kKinds[] = {"B", "S(0)", "S(1)"};
    std::string text = kKinds[Pick(3)];
    if (place.find(",tp") != std::string::npos) absl::StrAppend(&text, ",", kKinds[Pick(3)]);
    return absl::StrCat("(", text, ")");
  }

  void Grow(Rate rate, std::vector<Found>& found, int steps) {
    for (int i = 0; i < steps; ++i) {
      kit_.Are(Pick(2) == 0 ? Role::kForward : Role::kInputGradient, rate);
      const std::string name = absl::StrCat("n", kit_.graph().num_nodes());
      const Found x = found[Pick(found.size())];
      const std::string place = Place();
      const std::string dist = place + Layout(place);
      const bool slower = rate == Rate::kMicroBatch && ValueRate(kit_.graph(), x.value, Ops()) == Rate::kStep;
      if (Pick(2) == 0 || dist == x.dist) {
        found.push_back({kit_.Node1(Pick(2) == 0 ? "relu" : "exp", name, {x.value}, x.dist), x.place, x.dist});
      } else if (!slower) {
        found.push_back({kit_.Box(name, x.value, dist), place, dist});
      }
    }
  }

  void Accumulate(const std::vector<Found>& fast, std::vector<Found>& slow) {
    for (int i = 0; i < 4; ++i) {
      const Found x = fast[Pick(fast.size())];
      if (ValueRate(kit_.graph(), x.value, Ops()) == Rate::kStep) continue;
      kit_.Are(Role::kInputGradient, Rate::kMicroBatch);
      slow.push_back({kit_.Node1("accumulate", absl::StrCat("sum", i), {x.value}, x.dist), x.place, x.dist});
    }
  }

  void Overwrite(const std::vector<Found>& variables, const std::vector<Found>& slow) {
    kit_.Are(Role::kUpdate, Rate::kStep);
    for (const Found& v : variables) {
      for (const Found& x : slow) {
        if (x.dist != v.dist || x.value == v.value || Pick(3) > 0) continue;
        kit_.Node("assign", absl::StrCat("set", v.value), {v.value, x.value}, {});
        break;
      }
    }
  }

  std::mt19937 random_;
  GraphKit kit_;
};

inline RandomJob MakeRandomJob(uint32_t seed) { return RandomJobMaker(seed).Make(); }

}  // namespace oneflow::testing
