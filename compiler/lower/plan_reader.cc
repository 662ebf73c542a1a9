#include "compiler/lower/plan_reader.h"

#include <algorithm>
#include <set>

#include "compiler/plan/variables.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// A grid by strides takes a few bytes for any size; classes list single ranks. So a reader's memory stays within a
// constant of its input. Placements of models have some ten over any rank.
constexpr int64_t kMaxGridsPerRank = 256;
constexpr int64_t kMaxElements = int64_t{1} << 56;  // far more than any machine has

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckIndex(absl::string_view what, int64_t index, int64_t size) {
  if (index >= 0 && index < size) return absl::OkStatus();
  return Bad(what, " ", index, " is not one of ", size);
}

absl::Status CheckOffsets(const google::protobuf::RepeatedPtrField<pb::ClassOffset>& offsets, int num_classes) {
  int before = -1;
  for (const pb::ClassOffset& offset : offsets) {
    OF_RETURN_IF_ERROR(CheckIndex("class", offset.class_(), num_classes));
    if (offset.class_() <= before) return Bad("class ", offset.class_(), " is out of order");
    before = offset.class_();
  }
  return absl::OkStatus();
}

class Checker {
 public:
  Checker(const pb::PlanSet& set, const PlanReader& reader) : set_(set), reader_(reader) {}

  absl::Status Run() const {
    for (const pb::ClassVariable& variable : set_.variables()) {
      const std::string where = absl::StrCat("variable '", variable.name(), "'");
      OF_RETURN_IF_ERROR_AT(CheckIndex("tensor", variable.tensor(), set_.tensors_size()), where);
      OF_RETURN_IF_ERROR_AT(CheckOffsets(variable.offsets(), set_.classes_size()), where);
    }
    for (const pb::ClassPlan& plan : set_.plans()) {
      OF_RETURN_IF_ERROR_AT(CheckPlan(plan), absl::StrCat("plan '", plan.name(), "'"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckPlan(const pb::ClassPlan& plan) const {
    OF_RETURN_IF_ERROR(CheckIndex("grid", plan.mesh(), set_.grids_size()));
    if (plan.memory_size() != set_.classes_size()) {
      return Bad("memory of ", plan.memory_size(), " classes, there are ", set_.classes_size());
    }
    for (const pb::ClassActor& actor : plan.actors()) {
      OF_RETURN_IF_ERROR_AT(CheckActor(plan, actor), absl::StrCat("actor '", actor.name(), "'"));
    }
    for (const pb::ClassRegister& reg : plan.registers()) {
      OF_RETURN_IF_ERROR_AT(CheckRegister(plan, reg), absl::StrCat("register '", reg.name(), "'"));
    }
    for (const pb::ClassOrder& order : plan.orders()) {
      OF_RETURN_IF_ERROR_AT(CheckIndex("class", order.class_(), set_.classes_size()), "order");
      OF_RETURN_IF_ERROR_AT(CheckIndex("queue", order.queue(), kNumQueues), "order");
      for (const int actor : order.actors()) {
        OF_RETURN_IF_ERROR_AT(CheckIndex("actor", actor, plan.actors_size()), "order");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckActor(const pb::ClassPlan& plan, const pb::ClassActor& actor) const {
    OF_RETURN_IF_ERROR(CheckIndex("grid", actor.grid(), set_.grids_size()));
    if (actor.senders() != -1) OF_RETURN_IF_ERROR(CheckIndex("senders' grid", actor.senders(), set_.grids_size()));
    for (const pb::Port& port : actor.inputs()) {
      OF_RETURN_IF_ERROR(CheckIndex("register", port.register_(), plan.registers_size()));
    }
    for (const pb::Port& port : actor.outputs()) {
      OF_RETURN_IF_ERROR(CheckIndex("register", port.register_(), plan.registers_size()));
    }
    for (const pb::ClassInstruction& instruction : actor.instructions()) {
      OF_RETURN_IF_ERROR_AT(CheckInstruction(plan, actor, instruction), absl::StrCat("'", instruction.node(), "'"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(const pb::ClassPlan& plan, const pb::ClassActor& actor,
                                const pb::ClassInstruction& instruction) const {
    for (const pb::ClassOperand& x : instruction.inputs()) OF_RETURN_IF_ERROR(CheckOperand(plan, x));
    for (const pb::ClassOperand& x : instruction.outputs()) OF_RETURN_IF_ERROR(CheckOperand(plan, x));
    if (instruction.op().empty()) return Bad("it names no op");
    if (instruction.kind() == pb::Instruction::READ && instruction.outputs().empty()) return Bad("it has no outputs");
    const bool boxing = instruction.kind() == pb::Instruction::COPY;
    if (boxing) OF_RETURN_IF_ERROR(CheckBoxingOperands(actor, instruction));
    if (!boxing && actor.senders() >= 0)
      return Bad("its actor sends, which only boxings do, not '", instruction.op(), "'");
    const auto lies_here = [&](const pb::ClassOperand& x) {
      const int grid = set_.tensors(x.tensor()).grid();
      if (HasRanks(grid, actor.grid())) return absl::OkStatus();
      return Bad("its operand lies on grid ", grid, ", the actor on ", actor.grid());
    };
    for (const pb::ClassOperand& x : instruction.outputs()) OF_RETURN_IF_ERROR(lies_here(x));
    if (boxing) return absl::OkStatus();
    for (const pb::ClassOperand& x : instruction.inputs()) OF_RETURN_IF_ERROR(lies_here(x));
    return absl::OkStatus();
  }

  // One input and one output. For ragged rows a second input with their counts, on the ranks of the source; where ranks
  // send, a third with the counts on the ranks of the result.
  absl::Status CheckBoxingOperands(const pb::ClassActor& actor, const pb::ClassInstruction& boxing) const {
    if (boxing.inputs_size() < 1 || boxing.outputs_size() != 1) {
      return Bad("a boxing has one input and one output, not ", boxing.inputs_size(), " and ", boxing.outputs_size());
    }
    const pb::ClassTensor& from = set_.tensors(boxing.inputs(0).tensor());
    const int inputs = from.ragged() == 0 ? 1 : actor.senders() < 0 ? 2 : 3;
    if (boxing.inputs_size() != inputs) {
      return Bad("a boxing of ", from.ragged() > 0 ? "ragged" : "dense", " rows has ", boxing.inputs_size(),
                 " inputs, not ", inputs);
    }
    const pb::ClassTensor& to = set_.tensors(boxing.outputs(0).tensor());
    const int groups = from.ragged() - 1;
    for (int i = 1; i < inputs; ++i) {
      const pb::ClassTensor &counts = set_.tensors(boxing.inputs(i).tensor()), &rows = i == 1 ? from : to;
      if (counts.dtype() != pb::I32 || counts.grid() != rows.grid() || counts.dims_size() != groups ||
          !std::equal(counts.dims().begin(), counts.dims().end(), from.dims().begin())) {
        return Bad("its counts are ", counts.ShortDebugString(), ", of rows ", rows.ShortDebugString());
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckOperand(const pb::ClassPlan& plan, const pb::ClassOperand& x) const {
    OF_RETURN_IF_ERROR(CheckIndex("tensor", x.tensor(), set_.tensors_size()));
    const int grid = set_.tensors(x.tensor()).grid();
    int holder = grid;
    if (x.place() == pb::ClassOperand::REGISTER) {
      OF_RETURN_IF_ERROR(CheckIndex("register", x.index(), plan.registers_size()));
      holder = plan.registers(x.index()).grid();
    } else if (x.place() == pb::ClassOperand::VARIABLE) {
      OF_RETURN_IF_ERROR(CheckIndex("variable", x.index(), set_.variables_size()));
      const int tensor = set_.variables(x.index()).tensor();
      OF_RETURN_IF_ERROR(CheckIndex("tensor", tensor, set_.tensors_size()));
      holder = set_.tensors(tensor).grid();
    } else if (!pb::ClassOperand::Place_IsValid(x.place())) {
      return Bad("place ", x.place(), " is unknown");
    }
    if (HasRanks(grid, holder)) return absl::OkStatus();
    return Bad("a tensor on grid ", grid, " in memory of grid ", holder);
  }

  absl::Status CheckRegister(const pb::ClassPlan& plan, const pb::ClassRegister& reg) const {
    OF_RETURN_IF_ERROR(CheckIndex("producer", reg.producer(), plan.actors_size()));
    for (const int consumer : reg.consumers()) OF_RETURN_IF_ERROR(CheckIndex("consumer", consumer, plan.actors_size()));
    OF_RETURN_IF_ERROR(CheckIndex("grid", reg.grid(), set_.grids_size()));
    if (reg.variable() != -1) OF_RETURN_IF_ERROR(CheckIndex("variable", reg.variable(), set_.variables_size()));
    if (reg.grid() != plan.actors(reg.producer()).grid()) {
      return Bad("lies on grid ", reg.grid(), ", its producer on ", plan.actors(reg.producer()).grid());
    }
    return absl::OkStatus();
  }

  // Whether ranks that have parts by grid `a` are those of `b`, where some may have one another's.
  bool HasRanks(int a, int b) const {
    const auto is_grid = [&](int grid) { return grid >= 0 && grid < set_.grids_size(); };
    return a == b || (is_grid(a) && is_grid(b) && HasRanksOf(reader_.grid(a), reader_.grid(b)));
  }

  const pb::PlanSet& set_;
  const PlanReader& reader_;
};

}  // namespace

absl::Status PlanReader::ReadRanks(const pb::PlanSet& set) {
  const pb::JobHosts& hosts = set.hosts();
  if (hosts.num_ranks() < 1 || hosts.num_ranks() > (1 << 24)) return Bad("hosts: ", hosts.num_ranks(), " ranks");
  if (hosts.device() != "cpu" && hosts.device() != "cuda") return Bad("hosts: device '", hosts.device(), "'");
  device_ = hosts.device() == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda;
  std::vector<HostGroup> groups;
  for (const pb::HostsAlike& alike : hosts.groups()) {
    HostGroup group;
    group.count = alike.count();
    group.devices = alike.devices();
    groups.push_back(std::move(group));
  }
  OF_ASSIGN_OR_RETURN_AT(topology_, Topology::Create(hosts.num_ranks(), hosts.ranks_per_process(), std::move(groups)),
                         "hosts");
  class_of_rank_.assign(hosts.num_ranks(), -1);
  for (int c = 0; c < set.classes_size(); ++c) {
    for (const int rank : set.classes(c).ranks()) {
      OF_RETURN_IF_ERROR_AT(CheckIndex("rank", rank, num_ranks()), absl::StrCat("class ", c));
      if (class_of_rank_[rank] >= 0) return Bad("class ", c, ": rank ", rank, " is in class ", class_of_rank_[rank]);
      class_of_rank_[rank] = c;
    }
  }
  const auto none = std::find(class_of_rank_.begin(), class_of_rank_.end(), -1);
  if (none != class_of_rank_.end()) return Bad("rank ", none - class_of_rank_.begin(), " is in no class");
  return absl::OkStatus();
}

absl::Status PlanReader::ReadGrid(const pb::RankGrid& grid) {
  if (grid.sizes_size() != grid.axes_size()) return Bad(grid.axes_size(), " axes, ", grid.sizes_size(), " sizes");
  std::vector<Axis> axes;
  int64_t size = 1;
  for (int a = 0; a < grid.axes_size(); ++a) {
    if (grid.sizes(a) < 1) return Bad("axis '", grid.axes(a), "' has size ", grid.sizes(a));
    axes.push_back({grid.axes(a), grid.sizes(a)});
    size *= grid.sizes(a);
    if (size > num_ranks()) return Bad("more than ", num_ranks(), " ranks");
  }
  grid_ranks_ += size;
  if (grid_ranks_ > kMaxGridsPerRank * num_ranks()) {
    return Bad("with it grids have ", grid_ranks_, " ranks; at most each of ", num_ranks(), " is in ",
               kMaxGridsPerRank);
  }
  std::vector<int> ranks(grid.ranks().begin(), grid.ranks().end());
  if (ranks.empty()) {
    if (grid.strides_size() != grid.axes_size()) return Bad(axes.size(), " axes, ", grid.strides_size(), " strides");
    ranks = {grid.first()};
    for (size_t a = 0; a < axes.size(); ++a) {
      std::vector<int> next;
      for (const int64_t rank : ranks) {
        for (int64_t c = 0; c < axes[a].size; ++c) {
          const int64_t there = rank + c * grid.strides(static_cast<int>(a));
          OF_RETURN_IF_ERROR(CheckIndex("rank", there, num_ranks()));
          next.push_back(static_cast<int>(there));
        }
      }
      ranks = std::move(next);
    }
  }
  if (static_cast<int64_t>(ranks.size()) != size) return Bad("axes of ", size, " ranks, ", ranks.size(), " are listed");
  for (const int rank : ranks) OF_RETURN_IF_ERROR(CheckIndex("rank", rank, num_ranks()));
  if (std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size()) return Bad("a rank is listed twice");
  grids_.push_back(Placement(std::move(axes), std::move(ranks)));
  return absl::OkStatus();
}

absl::Status PlanReader::ReadTensor(const pb::ClassTensor& tensor) {
  if (!pb::DType_IsValid(tensor.dtype())) return Bad("dtype ", tensor.dtype(), " is unknown");
  OF_RETURN_IF_ERROR(CheckIndex("grid", tensor.grid(), static_cast<int64_t>(grids_.size())));
  int64_t count = 1;
  for (const int64_t dim : tensor.dims()) {
    if (dim < 0 || dim > kMaxElements || (dim > 0 && count > kMaxElements / dim)) return Bad("size ", dim);
    count *= std::max<int64_t>(dim, 1);
  }
  if (tensor.ragged() < 0 || tensor.ragged() > tensor.dims_size()) {
    return Bad("ragged dimension ", tensor.ragged(), " of ", tensor.dims_size());
  }
  OF_ASSIGN_OR_RETURN(NdSbp sbp, ParseNdSbp(tensor.sbp()));
  Tensor read{
      {static_cast<DType>(tensor.dtype()), Shape({tensor.dims().begin(), tensor.dims().end()}), tensor.ragged() - 1},
      {grids_[tensor.grid()], std::move(sbp)},
      static_cast<MemoryLayout>(tensor.layout())};
  OF_RETURN_IF_ERROR(CheckDistType(read.type.shape, read.dist));
  if (tensor.layout() < 0 || tensor.layout() >= kNumMemoryLayouts) return Bad("layout ", tensor.layout());
  if (read.layout == MemoryLayout::kChannelBlocks && !ShardsFitBlocks(read.type, read.dist)) {
    return Bad("not every shard of ", read.type.ToString(), " ", read.dist.ToString(), " is blocks of ", kBlockChannels,
               " channels");
  }
  tensors_.push_back(std::move(read));
  return absl::OkStatus();
}

absl::StatusOr<PlanReader> PlanReader::Open(const pb::PlanSet& set) {
  if (set.version() != kPlanVersion) {
    return Bad("plan set: version is ", set.version(), ", this reader knows ", kPlanVersion);
  }
  PlanReader reader;
  OF_RETURN_IF_ERROR(reader.ReadRanks(set));
  for (int g = 0; g < set.grids_size(); ++g) {
    OF_RETURN_IF_ERROR_AT(reader.ReadGrid(set.grids(g)), absl::StrCat("grid ", g));
  }
  for (int t = 0; t < set.tensors_size(); ++t) {
    OF_RETURN_IF_ERROR_AT(reader.ReadTensor(set.tensors(t)), absl::StrCat("tensor ", t));
  }
  return reader;
}

absl::Status CheckPlanIndices(const pb::PlanSet& set, const PlanReader& reader) { return Checker(set, reader).Run(); }

int64_t RegionBegin(const pb::PlanSet& set, const pb::ClassPlan& plan, int rank_class, int zone) {
  int64_t others = 0;
  for (const pb::ClassPlan& other : set.plans()) {
    if (!plan.beside() || other.beside() || rank_class >= other.memory_size()) continue;
    others = std::max(others, BytesOfZone(other.memory(rank_class), zone));
  }
  return VariableBytesOfZone(set.classes(rank_class), zone) + RoomIn(static_cast<Zone>(zone), others);
}

}  // namespace oneflow
