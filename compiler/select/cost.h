// What a choice of layouts costs, compared lexicographically: first what must be avoided, then time.
#pragma once

namespace oneflow {

struct Cost {
  double avoided = 0;  // boxings of weights for readers beside them: a whole number, so that sums are exact
  double seconds = 0;  // of a step, all its acts

  // Of a boxing that does not exist: more than any sum of the others.
  static constexpr double kImpossible = 1e6;
  static Cost Impossible() { return {kImpossible, 0}; }
  bool possible() const { return avoided < kImpossible; }

  Cost& operator+=(const Cost& o) {
    avoided += o.avoided;
    seconds += o.seconds;
    return *this;
  }
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
  friend bool operator==(const Cost& a, const Cost& b) { return a.avoided == b.avoided && a.seconds == b.seconds; }
  friend bool operator<(const Cost& a, const Cost& b) {
    return a.avoided != b.avoided ? a.avoided < b.avoided : a.seconds < b.seconds;
  }
};

// One number for a cost. The search adds and compares single numbers, which is what makes it quick: pairs double its
// tables and stop its loops from being vectorised. Search() says which weights order choices as their costs do.
struct CostWeights {
  double avoided = 1;
  double seconds = 1;
  double Of(const Cost& cost) const { return avoided * cost.avoided + seconds * cost.seconds; }
};

}  // namespace oneflow
