#include "compiler/lower/rank_outline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/numbers.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

using Words = std::vector<int64_t>;

void Append(const std::vector<int64_t>& more, Words& words) { words.insert(words.end(), more.begin(), more.end()); }

void AppendSorted(std::vector<Words> parts, Words& words) {
  std::sort(parts.begin(), parts.end());
  words.push_back(static_cast<int64_t>(parts.size()));
  for (const Words& part : parts) Append(part, words);
}

// Whether all ranks have shards of one shape.
bool IsEven(const PlanReader::Tensor& tensor) {
  std::vector<int64_t> left = tensor.type.shape.dims();
  for (size_t axis = 0; axis < tensor.dist.sbp.size(); ++axis) {
    if (!tensor.dist.sbp[axis].is_split()) continue;
    int64_t& size = left[tensor.dist.sbp[axis].dim()];
    const int parts = tensor.dist.placement.axes()[axis].size;
    if (size % parts != 0) return false;
    size /= parts;
  }
  return true;
}

}  // namespace

class PlanOutline::Outliner {
 public:
  Outliner(const pb::PlanSet& set, PlanBoxings& boxings, const Topology& topology)
      : plan_(boxings.plan()), reader_(boxings.reader()), boxings_(boxings), topology_(topology) {
    actors_of_class_.resize(set.classes_size());
    here_.assign(plan_.actors_size(), -1);
    for (int t = 0; t < set.tensors_size(); ++t) even_.push_back(IsEven(reader_.tensor(t)));
  }

  absl::StatusOr<RankOutline> Of(int rank) {
    RankOutline out{.rank = rank};
    OF_RETURN_IF_ERROR(FindActors(out));
    for (size_t i = 0; i < out.actors.size(); ++i) here_[out.actors[i].actor] = static_cast<int>(i);
    const absl::Status status = Fill(out);
    for (const OutlinedActor& actor : out.actors) here_[actor.actor] = -1;
    OF_RETURN_IF_ERROR(status);
    return out;
  }

  const std::vector<std::vector<int>>& communicators() const { return communicators_; }

 private:
  const pb::ClassActor& actor(int id) const { return plan_.actors(id); }
  std::string Where(int id) const { return absl::StrCat("actor '", actor(id).name(), "'"); }

  // All ranks of a class are in a grid, or none is.
  const std::vector<int>& ActorsNear(int rank) {
    std::optional<std::vector<int>>& actors = actors_of_class_[reader_.class_of_rank(rank)];
    if (actors.has_value()) return *actors;
    actors.emplace();
    for (int a = 0; a < plan_.actors_size(); ++a) {
      const bool sends = boxings_.Sends(a) && reader_.grid(actor(a).senders()).IndexOf(rank) >= 0;
      if (sends || reader_.grid(actor(a).grid()).IndexOf(rank) >= 0) actors->push_back(a);
    }
    return *actors;
  }

  absl::Status FindActors(RankOutline& out) {
    for (const int a : ActorsNear(out.rank)) {
      OF_ASSIGN_OR_RETURN_AT(const bool acts, Acts(a, out.rank), Where(a));
      if (acts) out.actors.push_back({.actor = a});
    }
    return absl::OkStatus();
  }

  // Whether the actor has work on a rank of its grid or of its senders' grid.
  absl::StatusOr<bool> Acts(int a, int rank) {
    if (!boxings_.Sends(a)) return true;
    for (const pb::ClassInstruction& instruction : actor(a).instructions()) {
      OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(rank, instruction));
      if (boxing->ShareOf(rank) != nullptr) return true;
    }
    return false;
  }

  absl::Status Fill(RankOutline& out) {
    for (OutlinedActor& it : out.actors) OF_RETURN_IF_ERROR_AT(AddInputs(out.rank, it), Where(it.actor));
    for (OutlinedActor& it : out.actors) {
      OF_RETURN_IF_ERROR_AT(AddOutputs(out, it), Where(it.actor));
      OF_RETURN_IF_ERROR_AT(AddCalls(out.rank, it), Where(it.actor));
      OF_ASSIGN_OR_RETURN_AT(it.kind, KindOf(out.rank, it), Where(it.actor));
    }
    AddOrders(out);
    return absl::OkStatus();
  }

  absl::Status AddInputs(int rank, OutlinedActor& it) {
    for (const pb::Port& port : actor(it.actor).inputs()) {
      OF_ASSIGN_OR_RETURN(std::vector<int> indices, Reads(it.actor, rank, port.register_()));
      if (!indices.empty()) it.inputs.push_back({port.register_(), port.acts_per_slot(), std::move(indices)});
    }
    return absl::OkStatus();
  }

  // The ranks, as indices into its grid, whose register the actor's instance on `rank` reads.
  absl::StatusOr<std::vector<int>> Reads(int a, int rank, int reg) {
    const pb::ClassRegister& of = plan_.registers(reg);
    const Placement& grid = reader_.grid(of.grid());
    const int own = grid.IndexOf(rank);
    const std::vector<const pb::ClassInstruction*>& boxings = boxings_.ThatRead(a, reg);
    std::set<int> indices;
    for (const pb::ClassInstruction* const instruction : boxings) {
      OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(rank, *instruction));
      if (boxings_.Sends(a)) {
        const BoxingShare* const share = boxing->ShareOf(rank);
        if (share != nullptr && PlanBoxings::ReadsOwn(*share, *instruction, reg)) indices.insert(own);
        continue;
      }
      OF_ASSIGN_OR_RETURN(const auto* const copies, PlanBoxings::CopiesTo(rank, *instruction, *boxing));
      for (const int source : copies->sources) {
        indices.insert(grid.IndexOf(boxing->from().ranks()[source]));
      }
    }
    if (boxings.empty() && own >= 0) indices.insert(own);
    if (of.others_only()) indices.erase(own);
    return std::vector<int>(indices.begin(), indices.end());
  }

  absl::Status AddOutputs(const RankOutline& out, OutlinedActor& it) {
    for (const pb::Port& port : actor(it.actor).outputs()) {
      const int index = reader_.grid(plan_.registers(port.register_()).grid()).IndexOf(out.rank);
      if (index < 0) continue;  // only sends
      OutlinedActor::Output output{port.register_(), port.acts_per_slot(), {}};
      for (const int consumer : plan_.registers(output.reg).consumers()) {
        OF_RETURN_IF_ERROR(AddReaders(out, consumer, output));
      }
      if (!output.readers.empty()) it.outputs.push_back(std::move(output));
    }
    return absl::OkStatus();
  }

  // The instances of `consumer` that read the register of a rank.
  absl::Status AddReaders(const RankOutline& out, int consumer, OutlinedActor::Output& output) {
    const auto& boxings = boxings_.ThatRead(consumer, output.reg);
    if (boxings.empty() || boxings_.Sends(consumer)) {  // everything but copies reads its own rank's memory
      if (ReadsHere(out, consumer, output.reg)) output.readers.push_back({consumer, out.rank});
      return absl::OkStatus();
    }
    std::set<int> ranks;
    for (const pb::ClassInstruction* const instruction : boxings) {
      OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(out.rank, *instruction));
      for (const int reader : boxing->ReadersOf(boxing->from().IndexOf(out.rank))) {
        ranks.insert(boxing->to().ranks()[reader]);
      }
    }
    if (plan_.registers(output.reg).others_only()) ranks.erase(out.rank);
    for (const int rank : ranks) output.readers.push_back({consumer, rank});
    return absl::OkStatus();
  }

  bool ReadsHere(const RankOutline& out, int consumer, int reg) const {
    if (here_[consumer] < 0) return false;
    const auto& inputs = out.actors[here_[consumer]].inputs;
    return std::any_of(inputs.begin(), inputs.end(), [reg](const auto& input) { return input.reg == reg; });
  }

  absl::Status AddCalls(int rank, OutlinedActor& it) {
    if (!boxings_.Sends(it.actor)) return absl::OkStatus();
    for (int i = 0; i < actor(it.actor).instructions_size(); ++i) {
      OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(rank, actor(it.actor).instructions(i)));
      const BoxingShare* const share = boxing->ShareOf(rank);
      if (share != nullptr && share->call != GroupCall::kNone) it.calls.push_back({i, CommunicatorOf(*share)});
    }
    return absl::OkStatus();
  }

  int CommunicatorOf(const BoxingShare& share) {
    const auto [known, is_new] = communicator_of_.try_emplace(share.members, static_cast<int>(communicators_.size()));
    if (is_new) {
      communicators_.push_back(share.members);
      rings_.push_back(RingOf(share.members));
    }
    return known->second;
  }

  // The link between two ranks.
  int64_t Way(int a, int b) const {
    const auto groups = static_cast<int64_t>(topology_.groups().size());
    const auto from = static_cast<int64_t>(topology_.GroupIndexOf(a)),
               to = static_cast<int64_t>(topology_.GroupIndexOf(b));
    return (static_cast<int64_t>(topology_.Between(a, b)) * groups + from) * groups + to;
  }

  // How often each link is used from each member to the next.
  int64_t RingOf(const std::vector<int>& members) {
    std::map<int64_t, int64_t> ways;
    for (size_t i = 0; i < members.size(); ++i) ++ways[Way(members[i], members[(i + 1) % members.size()])];
    Words words;
    for (const auto& [way, times] : ways) Append({way, times}, words);
    return ring_numbers_.Of(words);
  }

  absl::StatusOr<int> KindOf(int rank, const OutlinedActor& it) {
    Words words = {it.actor, reader_.class_of_rank(rank), Way(rank, rank)};
    const int index = reader_.grid(actor(it.actor).grid()).IndexOf(rank);
    for (const pb::ClassInstruction& instruction : actor(it.actor).instructions()) {
      if (instruction.kind() == pb::Instruction::COPY) {
        OF_ASSIGN_OR_RETURN(words.emplace_back(), KindOfBoxing(it.actor, rank, instruction));
      } else {
        if (instruction.kind() == pb::Instruction::FETCH)
          words.push_back(index == 0);  // one rank is enough to tell the host
        AppendUneven(instruction.inputs(), rank, words);
        AppendUneven(instruction.outputs(), rank, words);
      }
    }
    for (const OutlinedActor::Input& input : it.inputs) words.push_back(input.reg);
    for (const OutlinedActor::Output& output : it.outputs) words.push_back(output.reg);
    return static_cast<int>(kinds_.Of(words));
  }

  void AppendUneven(const google::protobuf::RepeatedPtrField<pb::ClassOperand>& operands, int rank,
                    Words& words) const {
    for (const pb::ClassOperand& x : operands) {
      if (!even_[x.tensor()]) AppendShard(x.tensor(), rank, words);
    }
  }

  void AppendShard(int tensor, int rank, Words& words) const {
    const PlanReader::Tensor& of = reader_.tensor(tensor);
    const int index = of.dist.placement.IndexOf(rank);
    if (index >= 0) Append(ShardShape(of.type.shape, of.dist, index).dims(), words);
  }

  absl::StatusOr<int64_t> KindOfBoxing(int a, int rank, const pb::ClassInstruction& instruction) {
    const bool sends = boxings_.Sends(a);
    const int from = instruction.inputs(0).tensor(), to = instruction.outputs(0).tensor();
    const auto found = kind_of_boxing_.find({from, to, rank, sends});
    if (found != kind_of_boxing_.end()) return found->second;
    OF_ASSIGN_OR_RETURN(GroupBoxing* const boxing, boxings_.Of(rank, instruction));
    Words words = {from, to, sends};
    AppendShard(from, rank, words);
    AppendShard(to, rank, words);
    if (const BoxingShare* const share = sends ? boxing->ShareOf(rank) : nullptr; share != nullptr) {
      AppendShare(rank, *share, words);
    } else if (const int destination = boxing->to().IndexOf(rank); !sends && destination >= 0) {
      AppendCopies(rank, *boxing, boxing->CopiesOf(destination), words);
    }
    return kind_of_boxing_[{from, to, rank, sends}] = boxing_kinds_.Of(words);
  }

  void AppendShare(int rank, const BoxingShare& share, Words& words) {
    Append({static_cast<int64_t>(share.call), share.packed, share.received, share.sends, share.receives}, words);
    if (share.call != GroupCall::kNone) words.push_back(rings_[CommunicatorOf(share)]);
    std::vector<Words> transfers;
    for (const PlannedTransfer& transfer : share.transfers) {
      transfers.push_back({Way(rank, share.members[transfer.peer]), transfer.send_count, transfer.receive_count});
    }
    AppendSorted(std::move(transfers), words);
    for (const std::optional<CopyProgram>* const copy : {&share.pack, &share.unpack}) {
      words.push_back(copy->has_value());
      if (copy->has_value())
        AppendPieces(
            **copy, [](int source) { return source; }, words);
    }
  }

  void AppendCopies(int rank, GroupBoxing& boxing, const GroupBoxing::Copies& copies, Words& words) const {
    const auto way = [&](int source) { return Way(rank, boxing.from().ranks()[copies.sources[source]]); };
    AppendPieces(copies.program, way, words);
  }

  template <typename FromWhere>
  static void AppendPieces(const CopyProgram& program, const FromWhere& from_where, Words& words) {
    words.push_back(program.zero_fill);
    std::vector<Words> pieces;
    for (const CopyPiece& piece : program.pieces) {
      Append(piece.extent, pieces.emplace_back(Words{from_where(piece.source), piece.accumulate}));
    }
    AppendSorted(std::move(pieces), words);
  }

  void AddOrders(RankOutline& out) const {
    for (const pb::ClassOrder& from : plan_.orders()) {
      if (from.class_() != reader_.class_of_rank(out.rank)) continue;
      OutlinedOrder order{from.queue(), {}};
      for (const int a : from.actors()) {
        if (here_[a] < 0) continue;
        const bool calls = !out.actors[here_[a]].calls.empty();
        if (calls || !QueueKindOf(from.queue()).moves_between_ranks) order.actors.push_back(a);
      }
      if (!order.actors.empty()) out.orders.push_back(std::move(order));
    }
  }

  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  PlanBoxings& boxings_;
  const Topology& topology_;
  std::vector<bool> even_;                                        // by tensor
  std::vector<std::optional<std::vector<int>>> actors_of_class_;  // that may act
  std::vector<int> here_;                                         // by actor: its place in the outline that is made
  std::vector<std::vector<int>> communicators_;
  absl::flat_hash_map<std::vector<int>, int> communicator_of_;
  std::vector<int64_t> rings_;  // by communicator
  absl::flat_hash_map<std::tuple<int, int, int, bool>, int64_t>
      kind_of_boxing_;  // by tensors, rank, whether ranks send
  Numbers<Words> kinds_, boxing_kinds_, ring_numbers_;
};

PlanOutline::PlanOutline(const pb::PlanSet& set, PlanBoxings& boxings, const Topology& topology)
    : outliner_(std::make_unique<Outliner>(set, boxings, topology)) {}

PlanOutline::~PlanOutline() = default;

absl::StatusOr<RankOutline> PlanOutline::Of(int rank) { return outliner_->Of(rank); }

const std::vector<std::vector<int>>& PlanOutline::communicators() const { return outliner_->communicators(); }

int InstanceIds::OfActor(const Instance& instance) const {
  const pb::ClassActor& actor = plan_.actors(instance.actor);
  const Placement& grid = reader_.grid(actor.grid());
  const int index = grid.IndexOf(instance.rank);
  return actor.first_id() + (index >= 0 ? index : grid.size() + PlaceAmongSenders(instance));
}

// For an instance on a sender outside the actor's grid: the number of such instances before it.
int InstanceIds::PlaceAmongSenders(const Instance& instance) const {
  const int grid = plan_.actors(instance.actor).grid(), senders = plan_.actors(instance.actor).senders();
  const auto [it, is_new] = place_among_senders_.try_emplace({grid, senders, instance.rank}, 0);
  if (!is_new) return it->second;
  for (const int rank : reader_.grid(senders).ranks()) {
    if (rank == instance.rank) break;
    it->second += reader_.grid(grid).IndexOf(rank) < 0;
  }
  return it->second;
}

}  // namespace oneflow
