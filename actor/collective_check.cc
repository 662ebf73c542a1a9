#include "actor/collective_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "actor/check/bounds.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

// A call as one member makes it.
struct Call {
  int rank = 0;
  const pb::Instruction* instruction = nullptr;
  int in_group = 0;
};

// A call of a step, and the number of calls of its group before it.
struct OwnCall {
  const pb::Instruction* instruction = nullptr;
  int in_group = 0;
};

// The calls of one step, per communicator and member, in their order.
using Calls = std::map<int, std::map<int, std::vector<OwnCall>>>;

// The place of an operand; a register's slots are all alike.
std::tuple<int, int, int64_t> PlaceOf(const pb::Operand& x) {
  return {x.register_(), x.register_() < 0 ? static_cast<int>(x.zone()) : 0, x.offset()};
}

// One launch has nothing between its calls, they are on one communicator, and none writes what another writes or reads,
// since their order is undefined.
absl::StatusOr<std::vector<OwnCall>> CallsOfActor(const pb::Actor& actor) {
  std::vector<OwnCall> calls;
  std::set<int> groups;
  std::map<std::tuple<int, int, int64_t>, int> uses;  // by place, of a group: the number of reads, or -1: written
  const pb::Instruction* before = nullptr;
  for (const pb::Instruction& x : actor.instructions()) {
    const bool is_call = x.kind() == pb::Instruction::COLLECTIVE;
    const bool joins = x.group() != 0 && before != nullptr && before->group() == x.group();
    const auto bad = [&](const std::string& why) {
      return Malformed("'", x.node(), "': group ", x.group(), " of calls ", why);
    };
    if (!is_call) {
      if (x.group() != 0) return bad("has an instruction that is no call");
      before = &x;
      continue;
    }
    if (x.group() != 0 && !joins && !groups.insert(x.group()).second) return bad("is interrupted");
    if (joins && before->communicator() != x.communicator()) {
      return bad(absl::StrCat("is on communicators ", before->communicator(), " and ", x.communicator()));
    }
    if (!joins) uses.clear();
    for (const pb::Operand& in : x.inputs()) {
      int& use = uses[PlaceOf(in)];
      if (use < 0) return bad("reads its own results");
      ++use;
    }
    for (const pb::Operand& out : x.outputs()) {
      const bool in_place = !x.inputs().empty() && PlaceOf(x.inputs(0)) == PlaceOf(out);
      int& use = uses[PlaceOf(out)];
      if (use < 0 || use > (in_place ? 1 : 0)) return bad("overwrites its own operands or results");
      use = -1;
    }
    before = &x;
    calls.push_back({&x, joins ? calls.back().in_group + 1 : 0});
  }
  return calls;
}

absl::StatusOr<Calls> CallsOf(const pb::Program& set, const pb::Plan& plan) {
  Calls calls;
  std::vector<int> ordered(plan.actors_size(), 0);
  std::set<std::pair<int, int>> seen;
  for (const pb::QueueOrder& order : plan.orders()) {
    if (order.rank() < 0 || order.rank() >= set.ranks_size() || !IsQueue(order.queue()) ||
        !seen.insert({order.rank(), order.queue()}).second) {
      return Malformed("order of queue ", static_cast<int>(order.queue()), " of rank ", order.rank(),
                       ": there are two, or no such queue or rank");
    }
    for (const int id : order.actors()) {
      if (id < 0 || id >= plan.actors_size() || plan.actors(id).rank() != order.rank() ||
          plan.actors(id).queue() != order.queue()) {
        return Malformed("order on rank ", order.rank(), ": actor ", id, " is not one of that rank's queue ",
                         QueueName(order.queue()));
      }
      ++ordered[id];
      OF_ASSIGN_OR_RETURN_AT(const std::vector<OwnCall> own, CallsOfActor(plan.actors(id)),
                             absl::StrCat("actor ", id, " '", plan.actors(id).name(), "'"));
      for (const OwnCall& call : own) calls[call.instruction->communicator()][order.rank()].push_back(call);
    }
  }
  for (int id = 0; id < plan.actors_size(); ++id) {
    const pb::Actor& actor = plan.actors(id);
    const bool has_calls =
        std::any_of(actor.instructions().begin(), actor.instructions().end(),
                    [](const pb::Instruction& x) { return x.kind() == pb::Instruction::COLLECTIVE; });
    const bool may_be_free = !has_calls && ordered[id] == 0;
    if (!may_be_free && ordered[id] != actor.acts_per_step()) {
      return Malformed("actor ", id, " '", actor.name(), "': it acts ", actor.acts_per_step(), " times per step, ",
                       has_calls ? "with" : "without", " collectives, and is ordered ", ordered[id], " times");
    }
    if (has_calls && !QueueKindOf(actor.queue()).moves_between_ranks) {  // of one thread, in the order of the plan
      return Malformed("actor ", id, " '", actor.name(), "': has collectives, but is on queue ",
                       QueueName(actor.queue()));
    }
  }
  return calls;
}

// The properties on which two members of one call must agree.
absl::Status CheckAlike(const Call& a, const Call& b) {
  const auto type = [](const pb::Instruction& x) {
    return x.inputs().empty() ? x.outputs().empty() ? -1 : static_cast<int>(x.outputs(0).dtype())
                              : static_cast<int>(x.inputs(0).dtype());
  };
  const auto size = [](const pb::Instruction& x) {
    if (x.collective() == "exchange") return int64_t{0};  // see CheckExchange
    return std::max(Elements(x.inputs()), Elements(x.outputs()));
  };
  const auto show = [&](const Call& call) {
    return absl::StrCat("rank ", call.rank, " has '", call.instruction->node(), "' (", call.instruction->collective(),
                        ", dtype ", type(*call.instruction), ", reduction ", call.instruction->reduce(), ", ",
                        size(*call.instruction), " elements", call.instruction->by_counts() ? ", by counts" : "",
                        call.in_group == 0 ? "" : absl::StrCat(", launched with ", call.in_group, " before it"), ")");
  };
  const auto key = [&](const pb::Instruction& x) {
    return std::tuple(x.node(), x.collective(), type(x), static_cast<int>(x.reduce()), size(x), x.by_counts());
  };
  if (key(*a.instruction) == key(*b.instruction) && a.in_group == b.in_group) return absl::OkStatus();
  return Malformed(show(a), ", ", show(b));
}

// Rows by their places in the logical tensor, so that both ends of a transfer can be compared.
std::string LogicalRows(const pb::Rows& rows, const pb::Operand& counts) {
  std::string text;
  for (int d = 0; d < rows.start_size(); ++d) {
    absl::StrAppend(&text, "[", counts.start(d) + rows.start(d), "+", rows.extent(d), "]");
  }
  return absl::StrCat(text, " rows ", rows.first_row(), "+", rows.rows(), " of ", rows.row_elements(), " elements");
}

// One end's description of a transfer; nothing if it has none.
struct TransferEnd {
  int64_t elements = 0;
  std::string rows;  // of a call by counts
};

// Each transfer is expected at its other end. Examines transfers, not pairs of ranks.
absl::Status CheckExchange(const pb::Communicator& communicator, const std::vector<Call>& members) {
  std::map<std::pair<int, int>, std::pair<TransferEnd, TransferEnd>>
      transfers;  // by position of sender and receiver: both ends
  for (int i = 0; i < static_cast<int>(members.size()); ++i) {
    const pb::Instruction& in = *members[i].instruction;
    const auto end = [&](int64_t count, const pb::Rows& rows, int counts) {
      return TransferEnd{count, in.by_counts() ? LogicalRows(rows, in.inputs(counts)) : ""};
    };
    for (const pb::Transfer& x : in.transfers()) {
      if (x.send_count() > 0) transfers[{i, x.peer()}].first = end(x.send_count(), x.send_rows(), 1);
      if (x.receive_count() > 0) transfers[{x.peer(), i}].second = end(x.receive_count(), x.receive_rows(), 2);
    }
  }
  for (const auto& [pair, ends] : transfers) {
    const auto& [given, wanted] = ends;
    const int from = communicator.ranks(pair.first), to = communicator.ranks(pair.second);
    if (given.elements != wanted.elements) {
      return Malformed("rank ", from, " sends ", given.elements, " elements to rank ", to, ", which expects ",
                       wanted.elements);
    }
    if (given.rows != wanted.rows) {
      return Malformed("rank ", from, " sends ", given.rows, " to rank ", to, ", which expects ", wanted.rows);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCollectives(const pb::Program& set, const pb::Plan& plan) {
  OF_ASSIGN_OR_RETURN(const Calls calls, CallsOf(set, plan));
  for (const auto& [id, of_rank] : calls) {
    // Of a worker's program only the members here can be compared.
    pb::Communicator communicator;
    for (const int rank : set.communicators(id).ranks()) {
      if (!set.has_process() || set.ranks(rank).process() == set.process()) communicator.add_ranks(rank);
    }
    const bool whole = communicator.ranks_size() == set.communicators(id).ranks_size();
    const int first = communicator.ranks(0);
    const auto calls_of = [&calls_of_rank = of_rank](int rank) {
      const auto it = calls_of_rank.find(rank);
      return it == calls_of_rank.end() ? std::vector<OwnCall>() : it->second;
    };
    const std::vector<OwnCall> expected = calls_of(first);
    std::vector<std::vector<Call>> members(expected.size());
    for (const int rank : communicator.ranks()) {
      const std::vector<OwnCall> own = calls_of(rank);
      const std::string where = absl::StrCat("communicator ", id);
      if (own.size() != expected.size()) {
        return Malformed(where, ": rank ", first, " makes ", expected.size(), " calls per step, rank ", rank, " makes ",
                         own.size());
      }
      for (size_t n = 0; n < own.size(); ++n) {
        const Call call = {rank, own[n].instruction, own[n].in_group};
        OF_RETURN_IF_ERROR_AT(CheckAlike({first, expected[n].instruction, expected[n].in_group}, call),
                              absl::StrCat(where, ", call ", n));
        members[n].push_back(call);
      }
    }
    for (size_t n = 0; n < members.size(); ++n) {
      if (expected[n].instruction->collective() != "exchange" || !whole) continue;
      OF_RETURN_IF_ERROR_AT(CheckExchange(communicator, members[n]), absl::StrCat("communicator ", id, ", call ", n));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
