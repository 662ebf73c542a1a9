#include "tools/study/sim/played_ranks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "oneflow_core/numbers.h"
#include "oneflow_core/union_find.h"

namespace oneflow {
namespace {

using Words = std::vector<int64_t>;

// What a rank has to do with another, or with the members of a communicator: all the ways of it as one number.
struct Meeting {
  int64_t how = 0;
  int64_t whom = 0;  // a rank, or a communicator's number
};

struct RankNature {
  int64_t itself = 0;  // what can be said of it without speaking of others
  std::vector<Meeting> ranks, groups;
  std::vector<int64_t> cards;  // that its acts take
};

// Says of every rank what it is like.
class Natures {
 public:
  Natures(const PricedRanks& ranks, const std::vector<int>& alone)
      : ranks_(ranks),
        plan_(ranks.plan()),
        alone_(alone.begin(), alone.end()),
        of_rank_(ranks.programs().reader().num_ranks()) {}

  void Take(const PricedRank& rank) {
    const int number = rank.outline.rank;
    Found found;
    found.itself.push_back(alone_.count(number) > 0 ? number : -1);
    for (size_t i = 0; i < rank.outline.actors.size(); ++i) {
      TakeActor(number, rank.outline.actors[i], rank.costs[i], rank.landings[i], found);
    }
    for (const OutlinedOrder& order : rank.outline.orders) TakeOrder(order, found);
    Keep(number, found);
  }

  // When all are taken. A sender's card counts where it sends to several: what goes to one waits for that one's.
  void TakeSenders() {
    for (const auto& [card, of] : senders_) {
      if (of.to.size() < 2) continue;
      for (const int rank : of.ranks) of_rank_[rank].cards.push_back(card);
    }
  }

  const std::vector<RankNature>& of_rank() const { return of_rank_; }
  // By number: the members of the communicators that ranks call on.
  const std::vector<std::vector<int>>& groups() const { return ranks_.communicators(); }

 private:
  struct Found {
    Words itself;
    std::map<int64_t, Words> ranks, groups;  // by whom: how
    std::map<int64_t, int64_t> cards;        // in the order of their first act
  };
  struct SenderCard {
    std::set<int64_t> to;  // cards
    std::set<int> ranks;   // that send or receive by it
  };
  enum Kind : int64_t { kActor, kReads, kIsRead, kCalls, kOrder };

  void TakeActor(int rank, const OutlinedActor& actor, const ActCost& cost, const std::vector<PricedLanding>& landings,
                 Found& out) {
    const int64_t it = actor.actor;
    const bool transfers = cost.link >= 0 && (cost.link_ns > 0 || !landings.empty());
    const int64_t card = transfers ? out.cards.emplace(cost.link, out.cards.size()).first->second : -1;
    for (const int64_t word : {int64_t{kActor}, it, cost.ns, cost.link_ns, card}) out.itself.push_back(word);
    for (const OutlinedActor::Input& input : actor.inputs) {
      const Placement& grid = ranks_.programs().reader().grid(plan_.registers(input.reg).grid());
      for (const int index : input.indices) {
        Meet(out, rank, grid.ranks()[index], {kReads, it, input.reg, LandsNs(landings, input.reg, index)});
      }
    }
    for (const PricedLanding& landing : landings) {
      if (landing.sender_link < 0) continue;
      const int from = ranks_.programs().reader().grid(plan_.registers(landing.reg).grid()).ranks()[landing.index];
      SenderCard& sender = senders_[landing.sender_link];
      sender.to.insert(cost.link);
      sender.ranks.insert({from, rank});
    }
    for (const OutlinedActor::Output& output : actor.outputs) {
      for (const Instance& reader : output.readers) {
        Meet(out, rank, reader.rank, {kIsRead, it, output.reg, reader.actor});
      }
    }
    for (const OutlinedActor::Call& call : actor.calls) {
      out.groups[call.communicator].push_back(ways_.Of({kCalls, it, call.instruction}));
    }
  }

  static int64_t LandsNs(const std::vector<PricedLanding>& landings, int reg, int index) {
    const auto it = std::find_if(landings.begin(), landings.end(),
                                 [&](const PricedLanding& x) { return x.reg == reg && x.index == index; });
    return it == landings.end() ? 0 : it->ns;
  }

  void Meet(Found& out, int rank, int other, Words way) {
    if (rank == other) {
      out.itself.insert(out.itself.end(), way.begin(), way.end());
      return;
    }
    way.push_back(ranks_.costs().MessageNs(rank, other));
    way.push_back(ranks_.costs().MessageNs(other, rank));
    out.ranks[other].push_back(ways_.Of(way));
  }

  void TakeOrder(const OutlinedOrder& order, Found& out) {
    Words actors = {kOrder, order.queue};
    actors.insert(actors.end(), order.actors.begin(), order.actors.end());
    out.itself.push_back(kOrder);
    out.itself.push_back(orders_.Of(actors));
  }

  void Keep(int rank, Found& what) {
    RankNature& nature = of_rank_[rank];
    nature.itself = themselves_.Of(what.itself);
    nature.cards.resize(what.cards.size());
    for (const auto& [card, number] : what.cards) nature.cards[number] = card;
    const auto keep = [&](std::map<int64_t, Words>& from, std::vector<Meeting>& to) {
      for (auto& [whom, how] : from) {
        std::sort(how.begin(), how.end());
        to.push_back({all_ways_.Of(how), whom});
      }
    };
    keep(what.ranks, nature.ranks);
    keep(what.groups, nature.groups);
  }

  const PricedRanks& ranks_;
  const pb::ClassPlan& plan_;
  const std::set<int> alone_;
  std::vector<RankNature> of_rank_;
  std::map<int64_t, SenderCard> senders_;  // by their cards
  Numbers<Words> themselves_, ways_, all_ways_, orders_;
};

// Splits ranks into blocks until they are stable.
class Refinement {
 public:
  explicit Refinement(const Natures& natures) : natures_(natures.of_rank()), groups_(natures.groups()) {
    FindWhoShares();
    Numbers<int64_t> numbers;
    for (const RankNature& nature : natures_) block_.push_back(numbers.Of(nature.itself));
    num_blocks_ = numbers.size();
  }

  void Run() {
    for (size_t before = 0; before != num_blocks_;) {
      before = num_blocks_;
      Split();
    }
  }

  PlayedRanks Take() const {
    PlayedRanks result;
    result.stands_for.resize(block_.size());
    absl::flat_hash_map<int64_t, int> first;  // by block
    // Who shares a card with others is played by the first who does so in this company: all of one card.
    for (const std::vector<int>& ranks : sharing_) {
      for (const int rank : ranks) first.emplace(block_[rank], rank);
    }
    for (size_t r = 0; r < block_.size(); ++r) {
      const int rank = static_cast<int>(r);
      result.stands_for[r] = first.emplace(block_[r], rank).first->second;
      if (result.stands_for[r] == rank) result.played.push_back(rank);
    }
    return result;
  }

 private:
  // Ranks share that take one card, or cards that are shared.
  void FindWhoShares() {
    UnionFind together(static_cast<int>(natures_.size()));
    absl::flat_hash_map<int64_t, int> first_at;
    for (size_t r = 0; r < natures_.size(); ++r) {
      const int rank = static_cast<int>(r);
      for (const int64_t card : natures_[r].cards) together.Unite(first_at.emplace(card, rank).first->second, rank);
    }
    std::map<int, std::vector<int>> sharing;
    for (size_t r = 0; r < natures_.size(); ++r)
      sharing[together.Find(static_cast<int>(r))].push_back(static_cast<int>(r));
    for (auto& [root, ranks] : sharing) {
      if (ranks.size() > 1) sharing_.push_back(std::move(ranks));
    }
    shares_.resize(natures_.size(), false);
    for (const std::vector<int>& ranks : sharing_) {
      for (const int rank : ranks) shares_[rank] = true;
    }
  }

  // All who share, and which cards each takes, said alike wherever they are.
  Words Company(const std::vector<int>& ranks, const std::vector<int64_t>& next) const {
    Words key = {-1};
    Numbers<int64_t> cards;
    for (const int rank : ranks) {
      key.push_back(next[rank]);
      for (const int64_t card : natures_[rank].cards) key.push_back(cards.Of(card));
    }
    return key;
  }

  void Split() {
    Numbers<Words> numbers, group_numbers;
    std::vector<int64_t> group_block;
    for (const std::vector<int>& members : groups_) {
      Words key;
      for (const int member : members) key.push_back(block_[member]);
      std::sort(key.begin(), key.end());
      group_block.push_back(group_numbers.Of(key));
    }
    std::vector<int64_t> next;
    for (size_t r = 0; r < natures_.size(); ++r) {
      Words key = {block_[r], static_cast<int64_t>(natures_[r].ranks.size())};
      Add(natures_[r].ranks, block_, key);
      Add(natures_[r].groups, group_block, key);
      next.push_back(numbers.Of(key));
    }
    for (const std::vector<int>& ranks : sharing_) {
      Words key = Company(ranks, next);
      for (size_t place = 0; place < ranks.size(); ++place) {
        key.push_back(static_cast<int64_t>(place));
        block_[ranks[place]] = numbers.Of(key);
        key.pop_back();
      }
    }
    for (size_t r = 0; r < next.size(); ++r) {
      if (!shares_[r]) block_[r] = next[r];
    }
    num_blocks_ = std::set<int64_t>(block_.begin(), block_.end()).size();
  }

  static void Add(const std::vector<Meeting>& meetings, const std::vector<int64_t>& blocks, Words& key) {
    std::vector<std::pair<int64_t, int64_t>> sorted;
    for (const Meeting& meeting : meetings) sorted.push_back({meeting.how, blocks[meeting.whom]});
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [how, block] : sorted) key.insert(key.end(), {how, block});
  }

  const std::vector<RankNature>& natures_;
  const std::vector<std::vector<int>>& groups_;
  std::vector<std::vector<int>> sharing_;  // ranks that wait for one another at cards, ascending
  std::vector<bool> shares_;               // by rank
  std::vector<int64_t> block_;             // by rank
  size_t num_blocks_ = 0;
};

}  // namespace

absl::StatusOr<PlayedRanks> FindPlayedRanks(PricedRanks& ranks, const std::vector<int>& alone) {
  Natures natures(ranks, alone);
  for (int rank = 0; rank < ranks.programs().reader().num_ranks(); ++rank) {
    OF_ASSIGN_OR_RETURN(const PricedRank priced, ranks.Of(rank));
    natures.Take(priced);
  }
  natures.TakeSenders();
  Refinement refinement(natures);
  refinement.Run();
  return refinement.Take();
}

PlayedRanks PlayAll(int num_ranks) {
  PlayedRanks all;
  all.played.resize(num_ranks);
  std::iota(all.played.begin(), all.played.end(), 0);
  all.stands_for = all.played;
  return all;
}

}  // namespace oneflow
