// The least cost of a value for each choice of one of its ports, when messages make the choices of the others dearer or
// cheaper: the minima of a table of all combinations, without the table.
//
//   cost(maker, readers) = base(maker) + sum over all types that readers want of open(maker, type) - sum of messages
//
// Readers that want the same type share its price, so a choice is a partition of the readers into groups and a type for
// each. The cost of a group, g(S) = min over types of (open + messages of S), is known for all S, and the best
// partition of each set follows from those of its subsets: 3^readers steps, where a table has types^readers entries.
// (Only the first type of a state with several counts. With more readers than kMaxReaders each group pays a share of
// every price: a lower bound of the cost, never more.)
#pragma once

#include <vector>

#include "compiler/select/factors.h"

namespace oneflow {

class ValueCosts {
 public:
  // `factor`: a wide one of `factors`. Prices above `cap` count as that.
  ValueCosts(const Factors& factors, const Factor& factor, double cap);

  // By class of `side`: the least cost, less the messages of all other sides. A side with a class in `fixed` has that
  // one; -1: any.
  std::vector<double> Least(const std::vector<const std::vector<double>*>& messages, size_t side,
                            const std::vector<int>& fixed) const;
  // Steps of one Least().
  double work() const;

 private:
  static constexpr size_t kMaxReaders = 8;
  static constexpr int kNoSide = -1;

  struct Maker {
    double base = 0;
    std::vector<double> open;  // by type
  };
  struct Reader {
    int side = 0;
    std::vector<int> want;  // by class
  };
  using Group = std::vector<Reader>;
  // The possible costs of a group of readers.
  struct Offers {
    std::vector<double> alone;  // by set and type: the messages, if all of the set want that type
    std::vector<double> least;  // by set: scratch of one maker
    std::vector<double> best;   // by set: of the best partition of it
  };

  void AddGroups(std::vector<Reader> readers);
  template <typename Price>
  void AddMaker(const std::vector<int>& paid, const Price& price);
  Offers OffersOf(const Group& group, const std::vector<const std::vector<double>*>& messages,
                  const std::vector<int>& fixed) const;
  void Partition(const Maker& maker, Offers& offers) const;
  double LeastBeside(const Maker& maker, const Offers& offers, size_t member, int want, size_t num_members) const;

  int num_types_ = 0;
  int maker_side_ = kNoSide;
  std::vector<Maker> makers_;  // by class of the maker's side; one if that is fixed
  std::vector<Group> groups_;
};

}  // namespace oneflow
