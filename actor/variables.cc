#include "actor/variables.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "actor/checkpoint/box.h"
#include "actor/checkpoint/fresh_variables.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/element.h"
#include "actor/init.h"
#include "actor/instruction/kinds.h"
#include "actor/output_file.h"
#include "oneflow_core/optimizer_rules.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

// Of names of averages of weights.
std::string AverageSuffix() { return absl::StrCat("/", kAverageSuffix); }

bool IsOfModel(const pb::Variable& variable) { return IsOfModel(static_cast<VariableRole>(variable.role())); }

TensorType TypeOf(const pb::Variable& variable) {
  return {static_cast<DType>(variable.dtype()),
          Shape(std::vector<int64_t>(variable.dims().begin(), variable.dims().end()))};
}

int64_t Count(const pb::Shard& shard) {
  int64_t count = 1;
  for (const int64_t extent : shard.extent()) count *= extent;
  return count;
}

// Calls fn(logical index, shard index, length) for every run of elements that is contiguous in both, until an error.
template <typename Fn>
absl::Status ForEachRun(const Shape& shape, const pb::Shard& shard, const Fn& fn) {
  const int64_t count = Count(shard);
  if (count == 0) return absl::OkStatus();
  int64_t length = 1;
  for (int d = shape.rank(); d-- > 0;) {
    length *= shard.extent(d);
    if (shard.extent(d) != shape[d]) break;  // a split dimension is the outermost of a run
  }
  for (int64_t local = 0; local < count; local += length) {
    int64_t rest = local, logical = 0, stride = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      logical += (shard.start(d) + rest % shard.extent(d)) * stride;
      rest /= shard.extent(d);
      stride *= shape[d];
    }
    OF_RETURN_IF_ERROR(fn(logical, local, length));
  }
  return absl::OkStatus();
}

// A shard of one of our ranks as it lies in its zone.
struct ShardMemory {
  DeviceContext& device;
  char* data = nullptr;
  int64_t num_bytes = 0;
  bool host_may_touch = true;
  TierFile* file = nullptr;  // where `data` stands for a place; null: it lies in memory
};

// Lets `fill` write the shard: in place, or in a host copy if the host must not touch its zone.
template <typename Fn>
absl::Status WriteShard(const ShardMemory& memory, const Fn& fill) {
  if (memory.host_may_touch) return fill(memory.data);
  std::vector<char> host(memory.num_bytes);
  OF_RETURN_IF_ERROR(fill(host.data()));
  if (memory.file != nullptr) return memory.file->Write(memory.data, memory.num_bytes, host.data());
  return Checked(memory.device.CopyFromHost(memory.data, host.data(), memory.num_bytes));
}

// Initial values of a shard that lies in a file, a piece at a time: memory for all of it is what the host may not have.
absl::Status InitialiseInFile(const TensorType& type, const Init& init, uint64_t key, const pb::Shard& shard,
                              const ShardMemory& memory) {
  constexpr int64_t kPieceBytes = 64 * kFileBlock;
  const int64_t size = static_cast<int64_t>(SizeOf(type.dtype)), capacity = kPieceBytes / size;
  std::vector<char> piece(static_cast<size_t>(std::min(kPieceBytes, memory.num_bytes)));
  char* place = memory.data;
  int64_t filled = 0;
  const auto flush = [&] {
    const int64_t bytes = std::exchange(filled, 0) * size;
    return bytes == 0 ? absl::OkStatus() : memory.file->Write(std::exchange(place, place + bytes), bytes, piece.data());
  };
  OF_RETURN_IF_ERROR(ForEachRun(type.shape, shard, [&](int64_t logical, int64_t, int64_t length) {
    while (length > 0) {
      const int64_t count = std::min(length, capacity - filled);
      FillInitial(init, key, logical, count, type.dtype, piece.data(), filled);
      logical += count;
      length -= count;
      filled += count;
      if (filled == capacity) OF_RETURN_IF_ERROR(flush());
    }
    return absl::OkStatus();
  }));
  return flush();
}

// Lets `use` read the shard in the same way.
template <typename Fn>
absl::Status ReadShard(const ShardMemory& memory, const Fn& use) {
  if (memory.host_may_touch) return use(static_cast<const char*>(memory.data));
  std::vector<char> host(memory.num_bytes);
  if (memory.file != nullptr) {
    OF_RETURN_IF_ERROR(memory.file->Read(memory.data, memory.num_bytes, host.data()));
    return use(static_cast<const char*>(host.data()));
  }
  OF_RETURN_IF_ERROR(Checked(memory.device.CopyToHost(host.data(), memory.data, memory.num_bytes)));
  return use(static_cast<const char*>(host.data()));
}

// Reads ascending pieces of one tensor's bytes; small ones, as of columns, come from a block that is read at once.
class ReadAhead {
 public:
  ReadAhead(const SafetensorsReader& reader, const SafetensorsReader::Entry& entry) : reader_(reader), entry_(entry) {}

  absl::Status Copy(int64_t first, int64_t num_bytes, char* to) {
    if (num_bytes >= kBlock) return reader_.Read(entry_, first, num_bytes, to);
    const int64_t end = first_ + static_cast<int64_t>(block_.size());
    if (first < first_ || first + num_bytes > end) {
      first_ = first;
      block_.resize(static_cast<size_t>(std::min(kBlock, entry_.type.num_bytes() - first)));
      OF_RETURN_IF_ERROR(reader_.Read(entry_, first, static_cast<int64_t>(block_.size()), block_.data()));
    }
    std::memcpy(to, block_.data() + (first - first_), static_cast<size_t>(num_bytes));
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlock = int64_t{1} << 20;

  const SafetensorsReader& reader_;
  const SafetensorsReader::Entry& entry_;
  std::vector<char> block_;
  int64_t first_ = 0;  // the first byte of the block in the tensor
};

}  // namespace

// Calls fn(shard, its memory) for each shard in this process that is not empty.
template <typename Fn>
absl::Status Variables::ForOurShards(const pb::Variable& variable, const Fn& fn) const {
  for (const pb::Shard& shard : variable.shards()) {
    DeviceContext* device = devices_[shard.rank()];
    const int64_t bytes = Count(shard) * static_cast<int64_t>(SizeOf(static_cast<DType>(variable.dtype())));
    if (device == nullptr || bytes == 0) continue;
    absl::Status status =
        fn(shard, ShardMemory{*device, memory_.Base(shard.rank(), shard.zone()) + shard.offset(), bytes,
                              memory_.HostMayTouch(shard.rank(), shard.zone()),
                              ZoneKindOf(shard.zone()).in_file ? memory_.disk(shard.rank()) : nullptr});
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("variable '", variable.name(), "' on rank ", shard.rank(), " (",
                                           plans_.ranks(shard.rank()).device(), ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status Variables::Initialise(int rank) const {
  for (const pb::Variable& variable : plans_.variables()) {
    const TensorType type = TypeOf(variable);
    OF_ASSIGN_OR_RETURN(const Init init, ParseInit(variable.init(), type.shape.count()));
    const uint64_t key = InitKey(plans_.seed(), variable.name());
    OF_RETURN_IF_ERROR(ForOurShards(variable, [&](const pb::Shard& shard, const ShardMemory& memory) -> absl::Status {
      if (shard.rank() != rank) return absl::OkStatus();
      // An optimizer's state, twice as large as weights, need not come from the host.
      if (init.kind == Init::Kind::kConstant && init.value == 0 && !memory.host_may_touch) {
        if (memory.file != nullptr) return absl::OkStatus();  // a file begins with zeros
        OF_RETURN_IF_ERROR(Checked(memory.device.BindThread()));
        return Checked(memory.device.FillZero(memory.data, static_cast<size_t>(memory.num_bytes)));
      }
      if (memory.file != nullptr) return InitialiseInFile(type, init, key, shard, memory);
      return WriteShard(memory, [&](char* host) {
        return ForEachRun(type.shape, shard, [&](int64_t logical, int64_t local, int64_t length) {
          FillInitial(init, key, logical, length, type.dtype, host, local);
          return absl::OkStatus();
        });
      });
    }));
  }
  return absl::OkStatus();
}

absl::Status Variables::Load(const std::string& path) const {
  OF_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  const std::set<std::string> fresh = FreshVariables(reader.metadata());
  const bool has_adapters =
      std::any_of(plans_.variables().begin(), plans_.variables().end(), [&](const pb::Variable& variable) {
        return variable.role() == pb::ADAPTER && reader.tensors().count(variable.name()) > 0;
      });
  size_t taken = 0;
  for (const pb::Variable& variable : plans_.variables()) {
    if (!IsOfModel(variable)) continue;
    const std::string where = absl::StrCat("'", path, "': tensor '", variable.name(), "'");
    const TensorType type = TypeOf(variable);
    const auto entry = reader.tensors().find(variable.name());
    if (entry == reader.tensors().end()) {
      if (fresh.count(variable.name()) > 0 || (variable.role() == pb::ADAPTER && !has_adapters)) continue;
      return absl::NotFoundError(absl::StrCat(where, ": it is missing"));
    }
    if (entry->second.type != type) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is ", entry->second.type.ToString(), ", the variable is ", type.ToString()));
    }
    ++taken;
    ReadAhead file(reader, entry->second);
    const int64_t size = static_cast<int64_t>(SizeOf(type.dtype));
    OF_RETURN_IF_ERROR(ForOurShards(variable, [&](const pb::Shard& shard, const ShardMemory& memory) {
      return WriteShard(memory, [&](char* host) {
        return ForEachRun(type.shape, shard, [&](int64_t logical, int64_t local, int64_t length) {
          return file.Copy(logical * size, length * size, host + local * size);
        });
      });
    }));
  }
  if (taken == reader.tensors().size()) return absl::OkStatus();
  std::map<std::string, bool> known;
  for (const pb::Variable& variable : plans_.variables()) known[variable.name()] = IsOfModel(variable);
  for (const auto& [name, entry] : reader.tensors()) {
    if (!known[name]) {
      return absl::InvalidArgumentError(absl::StrCat("'", path, "': tensor '", name, "' (", entry.type.ToString(),
                                                     ") is no trainable variable of job '", plans_.job(), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status Variables::Save(const std::string& path, absl::string_view suffix, int process,
                             const std::function<absl::Status()>& barrier) const {
  std::vector<std::pair<std::string, const pb::Variable*>> selected;
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const pb::Variable& variable : plans_.variables()) {
    absl::string_view name = variable.name();
    const bool travels = suffix == AverageSuffix() && variable.role() == pb::STATISTIC;  // with averages of weights too
    if (suffix.empty() ? !IsOfModel(variable) : !travels && !absl::ConsumeSuffix(&name, suffix)) continue;
    selected.push_back({std::string(name), &variable});
    tensors.push_back({std::string(name), TypeOf(variable)});
  }
  if (selected.empty()) {
    return absl::NotFoundError(
        absl::StrCat("'", path, "': no variable is ", suffix.empty() ? "trainable" : absl::StrCat("named *", suffix)));
  }
  // One process makes the file, all fill it, the first gives it its name: no reader ever sees a part of it.
  const std::string partial = absl::StrCat(path, ".partial");
  if (process != 0) OF_RETURN_IF_ERROR(barrier());
  OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, process == 0 ? SafetensorsWriter::Create(partial, tensors)
                                                             : SafetensorsWriter::Attach(partial, tensors));
  if (process == 0) OF_RETURN_IF_ERROR(barrier());
  for (const auto& [name, variable] : selected) {
    const TensorType type = TypeOf(*variable);
    const int64_t size = static_cast<int64_t>(SizeOf(type.dtype));
    OF_RETURN_IF_ERROR(ForOurShards(*variable, [&](const pb::Shard& shard, const ShardMemory& memory) -> absl::Status {
      if (!shard.owner()) return absl::OkStatus();
      return ReadShard(memory, [&](const char* host) {
        return ForEachRun(type.shape, shard, [&](int64_t logical, int64_t local, int64_t length) {
          return writer.Write(name, logical * size, host + local * size, length * size);
        });
      });
    }));
  }
  OF_RETURN_IF_ERROR(writer.Close());
  OF_RETURN_IF_ERROR(barrier());
  if (process == 0) OF_RETURN_IF_ERROR(ReplaceFileBy(partial, path));
  return barrier();
}

// Elements of 8 bytes first, so that all lie at multiples of their size.
std::vector<const pb::Variable*> Variables::BySize() const {
  std::vector<const pb::Variable*> variables;
  for (const pb::Variable& variable : plans_.variables()) variables.push_back(&variable);
  std::stable_sort(variables.begin(), variables.end(), [](const pb::Variable* a, const pb::Variable* b) {
    return SizeOf(static_cast<DType>(a->dtype())) > SizeOf(static_cast<DType>(b->dtype()));
  });
  return variables;
}

template <typename Fn>
absl::Status Variables::ForOwned(const pb::Variable& variable, const Fn& fn) const {
  return ForOurShards(variable, [&](const pb::Shard& shard, const ShardMemory& memory) {
    return shard.owner() ? fn(shard, memory) : absl::OkStatus();
  });
}

absl::StatusOr<OwnedState> Variables::Owned() const {
  OwnedState state;
  for (const pb::Variable* variable : BySize()) {
    pb::CheckpointTensor tensor;
    tensor.set_name(variable->name());
    tensor.set_dtype(variable->dtype());
    *tensor.mutable_dims() = variable->dims();
    tensor.set_role(variable->role());
    tensor.set_own(variable->own());
    OF_RETURN_IF_ERROR(ForOwned(*variable, [&](const pb::Shard& shard, const ShardMemory& memory) {
      pb::CheckpointSlice& slice = *tensor.add_slices();
      *slice.mutable_start() = shard.start();
      *slice.mutable_extent() = shard.extent();
      slice.set_offset(state.num_bytes);
      state.num_bytes += memory.num_bytes;
      return absl::OkStatus();
    }));
    // A tensor without elements has no slices, and every process names it.
    if (tensor.slices_size() > 0 || TypeOf(*variable).shape.count() == 0) state.tensors.push_back(std::move(tensor));
  }
  return state;
}

absl::Status Variables::CopyState(char* to) const {
  for (const pb::Variable* variable : BySize()) {
    OF_RETURN_IF_ERROR(ForOwned(*variable, [&](const pb::Shard&, const ShardMemory& memory) {
      char* const here = std::exchange(to, to + memory.num_bytes);
      if (memory.file != nullptr) return memory.file->Read(memory.data, memory.num_bytes, here);
      return ReadShard(memory, [&](const char* host) {
        std::memcpy(here, host, memory.num_bytes);
        return absl::OkStatus();
      });
    }));
  }
  return absl::OkStatus();
}

absl::Status Variables::ReadOwned(
    const std::function<void(const pb::Variable&, const char* data, int64_t count)>& use) const {
  for (const pb::Variable& variable : plans_.variables()) {
    OF_RETURN_IF_ERROR(ForOwned(variable, [&](const pb::Shard& shard, const ShardMemory& memory) {
      return ReadShard(memory, [&](const char* host) {
        use(variable, host, Count(shard));
        return absl::OkStatus();
      });
    }));
  }
  return absl::OkStatus();
}

namespace {

// "<weight>/<suffix>" of a rule's state, by the weights of the job.
bool IsOptimizerState(const std::string& name, const std::set<std::string>& weights) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos || weights.count(name.substr(0, slash)) == 0) return false;
  const std::string suffix = name.substr(slash + 1);
  if (suffix == kAverageSuffix) return true;
  for (const OptimizerRule& rule : OptimizerRules()) {
    for (const OptimizerState& state : rule.states) {
      if (suffix == state.suffix) return true;
    }
  }
  return false;
}

// A weight that goes on without the state that the others have would make steps of another length.
template <typename Many>
absl::Status CheckOptimizerState(const Many& variables, const CheckpointReader& checkpoint) {
  std::set<std::string> weights;
  for (const pb::Variable& variable : variables) {
    if (IsLearned(static_cast<VariableRole>(variable.role()))) weights.insert(variable.name());
  }
  std::vector<std::string> missing;
  for (const pb::Variable& variable : variables) {
    if (checkpoint.Find(variable.name()) != nullptr || !IsOptimizerState(variable.name(), weights)) continue;
    missing.push_back(variable.name());
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint '", checkpoint.folder(), "': ", missing.size(),
                   " tensors of the optimizer's state are missing, the "
                   "first is '",
                   missing[0],
                   "': when it was saved their weights were frozen, or had another optimizer or no average; go on with "
                   "train.optimizer as it was, or begin anew from its weights (--weights)"));
}

}  // namespace

namespace {

// The type of what one group of ranks has, or of what all have.
template <typename Message>
TensorType TypeOfOne(const Message& message) {
  const int first = message.own() > 0 ? 1 : 0;
  return {static_cast<DType>(message.dtype()),
          Shape(std::vector<int64_t>(message.dims().begin() + first, message.dims().end()))};
}

Box WithoutFirst(Box box) {
  box.start.erase(box.start.begin());
  box.extent.erase(box.extent.begin());
  return box;
}

// Of `one` the mean over the groups that have saved it; of numbers that are not f32, which count steps, the first.
absl::Status ReadMean(const CheckpointReader& checkpoint, const pb::CheckpointTensor& tensor, const Box& one,
                      char* to) {
  const auto box_of = [&](int64_t group) {
    Box box = one;
    box.start.insert(box.start.begin(), group);
    box.extent.insert(box.extent.begin(), 1);
    return box;
  };
  if (tensor.dtype() != pb::F32) return checkpoint.Read(tensor, box_of(0), to);
  std::vector<float> part(one.count());
  std::vector<double> sum(one.count(), 0);
  for (int64_t group = 0; group < tensor.dims(0); ++group) {
    OF_RETURN_IF_ERROR(checkpoint.Read(tensor, box_of(group), reinterpret_cast<char*>(part.data())));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) part[i] = static_cast<float>(sum[i] / static_cast<double>(tensor.dims(0)));
  std::memcpy(to, part.data(), part.size() * sizeof(float));
  return absl::OkStatus();
}

// Groups of ranks that there were not begin with the mean of those that there were, or with what all had; so do all if
// there are no groups any more.
absl::Status ReadState(const CheckpointReader& checkpoint, const pb::CheckpointTensor& tensor,
                       const pb::Variable& variable, const pb::Shard& shard, char* to) {
  if (tensor.own() == variable.own()) return checkpoint.Read(tensor, BoxOf(shard), to);
  const Box one = variable.own() > 0 ? WithoutFirst(BoxOf(shard)) : BoxOf(shard);
  return tensor.own() == 0 ? checkpoint.Read(tensor, one, to) : ReadMean(checkpoint, tensor, one, to);
}

}  // namespace

absl::Status Variables::LoadState(const CheckpointReader& checkpoint, int rank) const {
  OF_RETURN_IF_ERROR(CheckOptimizerState(plans_.variables(), checkpoint));
  const bool has_groups = std::any_of(plans_.variables().begin(), plans_.variables().end(),
                                      [](const pb::Variable& variable) { return variable.own() > 0; });
  for (const pb::Variable& variable : plans_.variables()) {
    const std::string where = absl::StrCat("checkpoint '", checkpoint.folder(), "': tensor '", variable.name(), "'");
    const pb::CheckpointTensor* tensor = checkpoint.Find(variable.name());
    // Of groups that there are no more, what they had counts, and not what they last had in common.
    const pb::CheckpointTensor* const local = checkpoint.Find(absl::StrCat(variable.name(), kLocalSuffix));
    if (!has_groups && local != nullptr && local->own() > 0) tensor = local;
    if (tensor == nullptr) {
      if (IsOfModel(variable)) return absl::InvalidArgumentError(absl::StrCat(where, ": it is missing"));
      continue;
    }
    const TensorType type = TypeOfOne(variable);
    if (TypeOfOne(*tensor) != type) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is ", TypeOfOne(*tensor).ToString(), ", the variable is ", type.ToString()));
    }
    OF_RETURN_IF_ERROR(ForOurShards(variable, [&](const pb::Shard& shard, const ShardMemory& memory) -> absl::Status {
      if (shard.rank() != rank) return absl::OkStatus();
      return WriteShard(memory, [&](char* host) { return ReadState(checkpoint, *tensor, variable, shard, host); });
    }));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
