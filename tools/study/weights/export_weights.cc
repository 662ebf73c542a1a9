#include "tools/study/weights/export_weights.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/checkpoint/disk.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/checkpoint/weight_files.h"
#include "compiler/adapters.h"
#include "compiler/parameter_groups.h"
#include "tools/study/weights/complaints.h"
#include "tools/study/weights/elements.h"
#include "tools/study/weights/hf_config.h"
#include "tools/study/weights/model_variables.h"
#include "tools/study/weights/peft.h"
#include "tools/study/weights/weights.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// Everything that an export reads and decides before it writes.
struct Export {
  JobModel model;
  Weights weights;
  std::vector<TheirTensor> tensors;
  nlohmann::ordered_json config;
};

// What the weights must have: the model's variables, and both factors of every adapter.
std::vector<ModelVariable> NeededOf(const JobModel& model) {
  std::vector<ModelVariable> needed = model.variables;
  for (const ModelVariable& variable : model.variables) {
    if (model.adapted.count(variable.name) == 0) continue;
    const Shape& shape = variable.type.shape;
    needed.push_back({AdapterA(variable.name), {variable.type.dtype, {shape[0], model.adapter_rank}}});
    needed.push_back({AdapterB(variable.name), {variable.type.dtype, {model.adapter_rank, shape[1]}}});
  }
  return needed;
}

absl::Status CheckWeights(const Export& out, const Correspondence& correspondence, const std::string& mapping,
                          const std::string& path) {
  WeightComplaints complaints;
  std::set<std::string> known;
  for (const int variable : correspondence.unnamed) {
    complaints.Missing(out.model.variables[variable].name,
                       absl::StrCat("as mapping '", mapping, "' has no rule for it"));
  }
  for (const ModelVariable& variable : NeededOf(out.model)) {
    known.insert(variable.name);
    const auto there = out.weights.tensors().find(variable.name);
    if (there == out.weights.tensors().end()) {
      complaints.Missing(variable.name, variable.type.ToString());
    } else if (there->second.type != variable.type) {
      complaints.Misshapen(variable.name, there->second.type.ToString(), variable.type.ToString());
    }
  }
  for (const auto& [name, tensor] : out.weights.tensors()) {
    if (known.count(name) == 0) complaints.Surplus(name, tensor.type);
  }
  return complaints.AsError(absl::StrCat("'", path, "' for ", out.model.Where("")));
}

absl::StatusOr<Export> Prepare(SourcedConfig job, const ExportOptions& options) {
  OF_ASSIGN_OR_RETURN(JobModel model, ModelOf(std::move(job)));
  OF_ASSIGN_OR_RETURN(const Mapping mapping, MappingFor(model, options.mapping));
  OF_ASSIGN_OR_RETURN_AT(const pb::Family* const family, FamilyFor(mapping, model.fields), model.Where(""));
  OF_ASSIGN_OR_RETURN_AT(nlohmann::ordered_json config, MakeHfConfig(mapping, *family, model.fields, options.dtype),
                         absl::StrCat(model.Where(""), ": mapping '", mapping.name, "'"));
  OF_ASSIGN_OR_RETURN(Correspondence correspondence, Correspond(mapping, model.variables));
  OF_ASSIGN_OR_RETURN(Weights weights, Weights::Open(options.weights));
  Export out{std::move(model), std::move(weights), {}, std::move(config)};
  OF_RETURN_IF_ERROR(CheckWeights(out, correspondence, mapping.name, options.weights));
  out.tensors = std::move(correspondence.tensors);
  return out;
}

// A model that is there is nobody's to overwrite.
absl::Status CheckFree(const std::string& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    const bool is_config = name == kConfigFile || name == kAdapterConfig;
    if (!is_config && entry.path().extension() != ".safetensors" && name != kModelIndex) continue;
    return absl::AlreadyExistsError(absl::StrCat("'", folder, "' has a model already: ", name));
  }
  return absl::OkStatus();
}

// Tensors of each file: as many, in their order, as it takes.
std::vector<std::vector<const TheirTensor*>> Shards(const Export& out, const ExportOptions& options) {
  std::vector<std::vector<const TheirTensor*>> shards(1);
  int64_t bytes = 0;
  for (const TheirTensor& tensor : out.tensors) {
    const int64_t takes = TensorType{options.dtype, tensor.shape}.num_bytes();
    if (!shards.back().empty() && bytes + takes > options.max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(&tensor);
    bytes += takes;
  }
  return shards;
}

std::string ShardName(size_t shard, size_t of) {
  return of == 1 ? kModelFile : absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1, of);
}

absl::Status ReadFloats(const Export& out, const std::string& name, int64_t count, float* to) {
  return Annotate(out.weights.Read(name, count * static_cast<int64_t>(sizeof(float)), reinterpret_cast<char*>(to)),
                  absl::StrCat("variable '", name, "'"));
}

// Of a variable of this shape, as it has them.
absl::StatusOr<LowRank> ReadFactors(const Export& out, const std::string& variable, const Shape& shape) {
  const int64_t rank = out.model.adapter_rank;
  LowRank factors = {std::vector<float>(static_cast<size_t>(shape[0] * rank)),
                     std::vector<float>(static_cast<size_t>(rank * shape[1]))};
  OF_RETURN_IF_ERROR(ReadFloats(out, AdapterA(variable), shape[0] * rank, factors.a.data()));
  OF_RETURN_IF_ERROR(ReadFloats(out, AdapterB(variable), rank * shape[1], factors.b.data()));
  return factors;
}

// Reads the variable into `to`, with what its adapter adds.
absl::Status ReadMerged(const Export& out, const ModelVariable& variable, float* to) {
  OF_RETURN_IF_ERROR(ReadFloats(out, variable.name, variable.type.shape.count(), to));
  if (out.model.adapted.count(variable.name) == 0) return absl::OkStatus();
  const int64_t rows = variable.type.shape[0], columns = variable.type.shape[1], rank = out.model.adapter_rank;
  OF_ASSIGN_OR_RETURN(const LowRank factors, ReadFactors(out, variable.name, variable.type.shape));
  const std::vector<float>&a = factors.a, &b = factors.b;
  std::vector<double> row(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t k = 0; k < rank; ++k) {
      const double factor = a[i * rank + k];
      for (int64_t j = 0; j < columns; ++j) row[j] += factor * b[k * columns + j];
    }
    for (int64_t j = 0; j < columns; ++j) {
      float& element = to[i * columns + j];
      element = static_cast<float>(element + out.model.adapter_scale * row[j]);
    }
  }
  return absl::OkStatus();
}

// Writes elements under a name.
absl::Status WriteAs(const SafetensorsWriter& writer, const std::string& name, const std::vector<float>& floats,
                     DType dtype) {
  const auto count = static_cast<int64_t>(floats.size());
  if (dtype == DType::kFloat32) return writer.Write(name, 0, floats.data(), count * SizeOf(dtype));
  std::vector<char> bytes(floats.size() * static_cast<size_t>(SizeOf(dtype)));
  OF_RETURN_IF_ERROR(FromFloats(floats.data(), count, dtype, bytes.data()));
  return writer.Write(name, 0, bytes.data(), static_cast<int64_t>(bytes.size()));
}

absl::Status Convert(const Export& out, const TheirTensor& tensor, DType dtype, const SafetensorsWriter& writer,
                     const std::string& name) {
  std::vector<float> floats(static_cast<size_t>(tensor.shape.count()));
  for (const Piece& piece : tensor.pieces) {
    const ModelVariable& variable = out.model.variables[piece.variable];
    const bool is_whole = IsWhole(piece, tensor.shape);
    std::vector<float> ours(is_whole ? 0 : static_cast<size_t>(variable.type.shape.count()));
    std::vector<float>& to = is_whole ? floats : ours;
    OF_RETURN_IF_ERROR(ReadMerged(out, variable, to.data()));
    if (!is_whole) PutIn(piece, tensor.shape, ours.data(), floats.data());
  }
  return Annotate(WriteAs(writer, name, floats, dtype), absl::StrCat("tensor '", name, "'"));
}

// A file of these tensors, which `fill` writes; there is none if it fails.
template <typename Fill>
absl::Status WriteTensors(const std::string& path, std::vector<SafetensorsWriter::Tensor> list, const Fill& fill) {
  const std::string partial = absl::StrCat(path, ".partial");
  OF_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                      SafetensorsWriter::Create(partial, std::move(list), {{"format", "pt"}}));
  absl::Cleanup remove = [&partial] { unlink(partial.c_str()); };
  OF_RETURN_IF_ERROR(fill(writer));
  OF_RETURN_IF_ERROR(writer.Close());
  OF_RETURN_IF_ERROR(Rename(partial, path));
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::Status WriteShard(const Export& out, const std::vector<const TheirTensor*>& tensors, DType dtype,
                        const std::string& path) {
  std::vector<SafetensorsWriter::Tensor> list;
  for (const TheirTensor* const tensor : tensors) list.push_back({tensor->name, {dtype, tensor->shape}});
  return WriteTensors(path, std::move(list), [&](const SafetensorsWriter& writer) -> absl::Status {
    for (const TheirTensor* const tensor : tensors) {
      OF_RETURN_IF_ERROR(Convert(out, *tensor, dtype, writer, tensor->name));
    }
    return absl::OkStatus();
  });
}

// The index of files that together have these tensors.
std::string IndexOf(const std::vector<std::vector<const TheirTensor*>>& shards, DType dtype) {
  int64_t bytes = 0, elements = 0;
  std::map<std::string, std::string> files;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const TheirTensor* const tensor : shards[i]) {
      files[tensor->name] = ShardName(i, shards.size());
      bytes += TensorType{dtype, tensor->shape}.num_bytes();
      elements += tensor->shape.count();
    }
  }
  nlohmann::ordered_json index;
  index["metadata"] = {{"total_parameters", elements}, {"total_size", bytes}};
  index["weight_map"] = files;
  return absl::StrCat(index.dump(2), "\n");
}

// "transformer.h.0.ln_1" of "transformer.h.0.ln_1.bias".
std::string ModuleOf(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

// The modules with a weight that is trained itself beside adapters.
absl::StatusOr<std::set<std::string>> SavedModules(const Export& out) {
  std::set<std::string> saved;
  const auto& also = out.model.config.config.train().lora().also();
  for (const TheirTensor& tensor : out.tensors) {
    for (const Piece& piece : tensor.pieces) {
      const std::string& name = out.model.variables[piece.variable].name;
      const bool trained = std::any_of(also.begin(), also.end(),
                                       [&](const std::string& pattern) { return MatchesPattern(pattern, name); });
      if (!trained) continue;
      saved.insert(ModuleOf(tensor.name));
      if (out.model.adapted.count(name) == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(out.model.config.Where("train.lora"), ": '", name,
                       "' has an adapter and is trained itself; PEFT has one or the other"));
    }
  }
  return saved;
}

absl::StatusOr<std::string> ExportAdapters(const Export& out, const ExportOptions& options) {
  if (out.model.adapted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(out.model.config.Where("train.lora"), ": the job has no adapters to export"));
  }
  OF_ASSIGN_OR_RETURN(const std::vector<AdaptedModule> modules, AdaptedModules(out.model, out.tensors));
  OF_ASSIGN_OR_RETURN(const std::set<std::string> saved, SavedModules(out));
  std::vector<SafetensorsWriter::Tensor> list;
  for (const AdaptedModule& module : modules) {
    const int64_t rank = out.model.adapter_rank * module.num_adapters;
    list.push_back({module.lora_a(), {options.dtype, {rank, module.inputs}}});
    list.push_back({module.lora_b(), {options.dtype, {module.outputs, rank}}});
  }
  for (const TheirTensor& tensor : out.tensors) {
    if (saved.count(ModuleOf(tensor.name)) > 0) list.push_back({SavedName(tensor.name), {options.dtype, tensor.shape}});
  }
  const size_t num_tensors = list.size();
  OF_RETURN_IF_ERROR(MakeFolder(options.out));
  const std::string path = absl::StrCat(options.out, "/", kAdapterFile);
  const auto fill = [&](const SafetensorsWriter& writer) -> absl::Status {
    for (const AdaptedModule& module : modules) {
      std::vector<LowRank> parts;
      for (const AdaptedModule::Part& part : module.parts) {
        if (!part.has_adapter) continue;
        OF_ASSIGN_OR_RETURN(const LowRank factors, ReadFactors(out, part.variable, part.shape));
        parts.push_back(TheirsOf(part, factors, out.model.adapter_rank));
      }
      const LowRank joined = Joined(module, parts, out.model.adapter_rank);
      OF_RETURN_IF_ERROR_AT(WriteAs(writer, module.lora_a(), joined.a, options.dtype), module.lora_a());
      OF_RETURN_IF_ERROR_AT(WriteAs(writer, module.lora_b(), joined.b, options.dtype), module.lora_b());
    }
    for (const TheirTensor& tensor : out.tensors) {
      if (saved.count(ModuleOf(tensor.name)) == 0) continue;
      OF_RETURN_IF_ERROR(Convert(out, tensor, options.dtype, writer, SavedName(tensor.name)));
    }
    return absl::OkStatus();
  };
  OF_RETURN_IF_ERROR(WriteTensors(path, std::move(list), fill));
  absl::Cleanup remove = [&path] { unlink(path.c_str()); };
  OF_RETURN_IF_ERROR(WriteWholeFile(absl::StrCat(options.out, "/", kAdapterConfig),
                                    absl::StrCat(PeftConfig(out.model, modules, saved).dump(2), "\n")));
  std::move(remove).Cancel();
  return absl::StrCat("wrote ", options.out, ": ", num_tensors, " tensors of the adapters of ",
                      out.model.adapted.size(), " variables, as ", Name(options.dtype), "\n");
}

}  // namespace

absl::StatusOr<std::string> ExportWeights(SourcedConfig job, const ExportOptions& options) {
  OF_RETURN_IF_ERROR(CheckFree(options.out));
  OF_ASSIGN_OR_RETURN(const Export out, Prepare(std::move(job), options));
  if (options.adapters) return ExportAdapters(out, options);
  OF_RETURN_IF_ERROR(MakeFolder(options.out));
  const auto shards = Shards(out, options);
  const auto in_folder = [&](absl::string_view file) { return absl::StrCat(options.out, "/", file); };
  std::vector<std::string> written;
  absl::Cleanup remove = [&written] {
    for (const std::string& path : written) unlink(path.c_str());
  };
  for (size_t i = 0; i < shards.size(); ++i) {
    written.push_back(in_folder(ShardName(i, shards.size())));
    OF_RETURN_IF_ERROR(WriteShard(out, shards[i], options.dtype, written.back()));
  }
  if (shards.size() > 1) {
    written.push_back(in_folder(kModelIndex));
    OF_RETURN_IF_ERROR(WriteWholeFile(written.back(), IndexOf(shards, options.dtype)));
  }
  OF_RETURN_IF_ERROR(WriteWholeFile(in_folder(kConfigFile), absl::StrCat(out.config.dump(2), "\n")));
  std::move(remove).Cancel();
  return absl::StrCat(
      "wrote ", options.out, ": ", out.tensors.size(), " tensors of ", out.model.variables.size(), " variables",
      out.model.adapted.empty() ? "" : absl::StrCat(" (", out.model.adapted.size(), " with adapters added)"), ", as ",
      Name(options.dtype), ", in ", shards.size(), shards.size() == 1 ? " file\n" : " files\n");
}

}  // namespace oneflow
