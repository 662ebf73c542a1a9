#include "compiler/select/beam.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace oneflow {
namespace {

constexpr int64_t kMaxWidth = 1 << 14;

// The units of the core, in an order that keeps few factors open.
std::vector<int> Order(const Factors& factors, const std::vector<int>& core) {
  std::set<int> left(core.begin(), core.end()), near;
  std::vector<int> chosen(factors.num_factors(), 0);  // by factor: how many of its units are in the order
  std::vector<int> order;
  // The factors that `unit` would open, less those that it would close.
  const auto burden = [&](int unit) {
    int count = 0;
    for (int id : factors.factors_of(unit)) {
      const bool last = chosen[id] + 1 == static_cast<int>(factors.factor(id).sides.size());
      if (chosen[id] == 0 && !last) ++count;
      if (chosen[id] > 0 && last) --count;
    }
    return count;
  };
  while (!left.empty()) {
    int next = *left.begin(), least = std::numeric_limits<int>::max();
    for (int unit : near) {
      const int count = burden(unit);
      if (count < least) least = count, next = unit;
    }
    order.push_back(next);
    left.erase(next);
    near.erase(next);
    for (int id : factors.factors_of(next)) {
      ++chosen[id];
      for (const Factor::Side& side : factors.factor(id).sides) {
        if (left.count(side.unit) > 0) near.insert(side.unit);
      }
    }
  }
  return order;
}

// A factor while its units choose one after another: the knowledge about it is a number, 0 at first.
class Track {
 public:
  Track(const Factors& factors, int id, const std::vector<int>& turn_of)
      : graph_(factors.graph()), factor_(factors.factor(id)), order_(factor_.sides.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(),
              [&](size_t a, size_t b) { return turn_of[factor_.sides[a].unit] < turn_of[factor_.sides[b].unit]; });
    if (factor_.table != nullptr) {
      FindLeast();
    } else {
      StartSets();
    }
  }

  int first_unit() const { return factor_.sides[order_.front()].unit; }
  int last_unit() const { return factor_.sides[order_.back()].unit; }

  // The knowledge after the unit at `depth` in turn has taken its option at `position`.
  int After(int known, size_t depth, int position) {
    const Factor::Side& side = factor_.sides[order_[depth]];
    const int chosen = side.class_of[position];
    if (factor_.table != nullptr) return known * side.size + chosen;
    const auto [it, inserted] = extensions_.try_emplace({known, static_cast<int>(depth), chosen}, 0);
    if (inserted) {
      const int port = factor_.ports[order_[depth]];
      it->second = Intern(Union(sets_[known], graph_.port(port).states[factor_.states[order_[depth]][chosen]]));
    }
    return it->second;
  }
  // The least cost of the factor once `depth` units have chosen.
  double Least(int known, size_t depth) const {
    return factor_.table != nullptr ? least_[depth][known] : set_seconds_[known];
  }
  size_t DepthOf(int unit) const {
    size_t depth = 0;
    while (factor_.sides[order_[depth]].unit != unit) ++depth;
    return depth;
  }

 private:
  void FindLeast() {
    std::vector<int64_t> stride(order_.size(), 1);
    for (size_t s = order_.size() - 1; s-- > 0;) stride[s] = stride[s + 1] * factor_.sides[s + 1].size;
    least_.resize(order_.size() + 1);
    std::vector<int> digits(order_.size(), 0);
    for (size_t entry = 0; entry < factor_.table->size(); ++entry) {
      int64_t index = 0;
      for (size_t depth = 0; depth < digits.size(); ++depth) index += stride[order_[depth]] * digits[depth];
      least_.back().push_back((*factor_.table)[index]);
      for (size_t depth = digits.size(); depth-- > 0;) {
        if (++digits[depth] < factor_.sides[order_[depth]].size) break;
        digits[depth] = 0;
      }
    }
    for (size_t depth = order_.size(); depth-- > 0;) {
      const size_t size = factor_.sides[order_[depth]].size;
      const std::vector<double>& finer = least_[depth + 1];
      for (size_t begin = 0; begin < finer.size(); begin += size) {
        least_[depth].push_back(*std::min_element(finer.begin() + begin, finer.begin() + begin + size));
      }
    }
  }

  // The knowledge about a wide factor: which maker makes the value how, and all types that are wanted.
  void StartSets() {
    CostGraph::State start;
    for (int id : graph_.value(factor_.value).ports) {
      if (std::find(factor_.ports.begin(), factor_.ports.end(), id) != factor_.ports.end()) continue;
      int state = 0;
      for (const auto& [port, fixed] : factor_.fixed) state = port == id ? fixed : state;
      start = Union(start, graph_.port(id).states[state]);
    }
    Intern(start);
  }

  static CostGraph::State Union(CostGraph::State a, const CostGraph::State& b) {
    if (b.from != CostGraph::kNone) a.from = b.from;
    a.wants.insert(a.wants.end(), b.wants.begin(), b.wants.end());
    std::sort(a.wants.begin(), a.wants.end());
    a.wants.erase(std::unique(a.wants.begin(), a.wants.end()), a.wants.end());
    return a;
  }

  int Intern(const CostGraph::State& set) {
    std::vector<int> key{set.from};
    key.insert(key.end(), set.wants.begin(), set.wants.end());
    const auto [it, inserted] = numbers_.try_emplace(key, static_cast<int>(sets_.size()));
    if (inserted) {
      double seconds = 0;
      for (int to : set.wants) {
        if (set.from != CostGraph::kNone && set.from != to) seconds += graph_.Price(factor_.value, set.from, to);
      }
      sets_.push_back(set);
      set_seconds_.push_back(seconds);
    }
    return it->second;
  }

  const CostGraph& graph_;
  const Factor& factor_;
  std::vector<size_t> order_;               // sides, as their units choose
  std::vector<std::vector<double>> least_;  // of a table: by depth, then by what is known
  std::vector<CostGraph::State> sets_;      // of a wide factor: by number
  std::vector<double> set_seconds_;
  std::map<std::vector<int>, int> numbers_;
  std::map<std::tuple<int, int, int>, int> extensions_;
};

// The states after some units have chosen.
struct Layer {
  std::vector<double> promise;
  std::vector<std::pair<int, int>> from;  // state of the layer before, position in the unit's domain
  std::vector<int> known;                 // of every open factor, state after state
};

class Beam {
 public:
  Beam(const Factors& factors, const std::vector<int>& core, double upper, const SearchLimits& limits)
      : factors_(factors), order_(Order(factors, core)), upper_(upper), turn_of_(factors.num_units(), -1) {
    int64_t options = 0;
    for (size_t turn = 0; turn < order_.size(); ++turn) {
      turn_of_[order_[turn]] = static_cast<int>(turn);
      options += static_cast<int64_t>(factors.domain(order_[turn]).size());
    }
    width_ = std::clamp<int64_t>(limits.beam_states / std::max<int64_t>(options, 1), limits.min_beam_width, kMaxWidth);
    for (int unit : order_) {
      for (int id : factors.factors_of(unit)) tracks_.try_emplace(id, factors, id, turn_of_);
    }
  }

  BeamResult Run() {
    double start = factors_.constant();
    for (int unit : order_) start += Cheapest(unit);
    for (const auto& [id, track] : tracks_) start += track.Least(0, 0);
    std::vector<Layer> layers(1);
    layers[0].promise = {start};
    layers[0].from = {{-1, -1}};
    for (int unit : order_) {
      layers.push_back(Choose(layers.back(), unit));
      layers[layers.size() - 2].known.clear();
      if (layers.back().promise.empty()) break;
    }
    BeamResult result;
    result.found = !layers.back().promise.empty();
    const double best = result.found ? layers.back().promise[0] : upper_;
    result.exact = least_dropped_ >= best - kSameSeconds;
    result.lower_bound = std::min(best, least_dropped_);
    result.options.assign(factors_.num_units(), 0);
    int state = 0;
    for (size_t turn = order_.size(); result.found && turn-- > 0;) {
      const auto [parent, position] = layers[turn + 1].from[state];
      result.options[order_[turn]] = factors_.domain(order_[turn])[position];
      state = parent;
    }
    return result;
  }

 private:
  double Cheapest(int unit) const {
    return *std::min_element(factors_.seconds(unit).begin(), factors_.seconds(unit).end());
  }

  // The continuation of a factor of `unit`.
  struct Move {
    Track* track;
    size_t depth;
    int before;  // index among the open factors, or -1 if it opens now
    int after;   // the same afterwards, or -1 if it closes
  };

  Layer Choose(const Layer& layer, int unit) {
    std::vector<int> next_open;
    std::vector<std::pair<int, int>> kept;  // indices of factors that stay open and see nothing of the unit
    std::vector<Move> moves;
    for (size_t i = 0; i < open_.size(); ++i) {
      Track& track = tracks_.at(open_[i]);
      const std::vector<int>& mine = factors_.factors_of(unit);
      const bool touched = std::find(mine.begin(), mine.end(), open_[i]) != mine.end();
      const bool closes = touched && track.last_unit() == unit;
      const int after = closes ? -1 : static_cast<int>(next_open.size());
      if (!closes) next_open.push_back(open_[i]);
      if (touched) {
        moves.push_back({&track, track.DepthOf(unit), static_cast<int>(i), after});
      } else {
        kept.emplace_back(static_cast<int>(i), after);
      }
    }
    for (int id : factors_.factors_of(unit)) {
      Track& track = tracks_.at(id);
      if (track.first_unit() != unit) continue;  // open already
      moves.push_back({&track, 0, -1, static_cast<int>(next_open.size())});
      next_open.push_back(id);
    }
    std::vector<Candidate> candidates = Candidates(layer, unit, moves, open_.size());
    Layer next = Best(layer, candidates, moves, kept, open_.size(), next_open.size());
    open_ = std::move(next_open);
    return next;
  }

  struct Candidate {
    double promise;
    int state, position;
    bool operator<(const Candidate& o) const {  // ties go to the more promising parent, then to the lower option
      return std::tie(promise, state, position) < std::tie(o.promise, o.state, o.position);
    }
  };

  // Every option of the unit after every state, except those beyond the upper bound.
  std::vector<Candidate> Candidates(const Layer& layer, int unit, const std::vector<Move>& moves,
                                    size_t num_open) const {
    const std::vector<double>& seconds = factors_.seconds(unit);
    const double cheapest = Cheapest(unit);
    std::vector<Candidate> candidates;
    for (size_t state = 0; state < layer.promise.size(); ++state) {
      const int* const before = layer.known.data() + state * num_open;
      for (size_t position = 0; position < seconds.size(); ++position) {
        double promise = layer.promise[state] + seconds[position] - cheapest;
        for (const Move& move : moves) {
          const int old = move.before < 0 ? 0 : before[move.before];
          const int now = move.track->After(old, move.depth, static_cast<int>(position));
          promise += move.track->Least(now, move.depth + 1) - move.track->Least(old, move.depth);
        }
        if (promise > upper_ - kSameSeconds) continue;
        candidates.push_back({promise, static_cast<int>(state), static_cast<int>(position)});
      }
    }
    return candidates;
  }

  // The most promising candidates, of each kind of state only the first.
  Layer Best(const Layer& layer, std::vector<Candidate>& candidates, const std::vector<Move>& moves,
             const std::vector<std::pair<int, int>>& kept, size_t num_open, size_t num_next) {
    std::sort(candidates.begin(), candidates.end());
    std::set<std::vector<int>> seen;
    Layer best;
    std::vector<int> known(num_next);
    for (const Candidate& it : candidates) {
      const int* const before = layer.known.data() + it.state * num_open;
      for (const auto& [from, to] : kept) known[to] = before[from];
      for (const Move& move : moves) {
        if (move.after < 0) continue;
        known[move.after] = move.track->After(move.before < 0 ? 0 : before[move.before], move.depth, it.position);
      }
      if (!seen.insert(known).second) continue;
      if (static_cast<int64_t>(best.promise.size()) == width_) {
        least_dropped_ = std::min(least_dropped_, it.promise);
        break;
      }
      best.promise.push_back(it.promise);
      best.from.emplace_back(it.state, it.position);
      best.known.insert(best.known.end(), known.begin(), known.end());
    }
    return best;
  }

  const Factors& factors_;
  const std::vector<int> order_;
  const double upper_;
  std::vector<int> turn_of_;  // by unit
  int64_t width_ = 1;
  std::map<int, Track> tracks_;  // by factor
  std::vector<int> open_;        // factors of which some units have chosen and others not
  double least_dropped_ = kInfinity;
};

}  // namespace

BeamResult SearchBeam(const Factors& factors, const std::vector<int>& core, double upper, const SearchLimits& limits) {
  return Beam(factors, core, upper, limits).Run();
}

}  // namespace oneflow
