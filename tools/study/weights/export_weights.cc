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
#include "tools/study/weights/complaints.h"
#include "tools/study/weights/elements.h"
#include "tools/study/weights/hf_config.h"
#include "tools/study/weights/model_variables.h"
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
    if (name != kConfigFile && entry.path().extension() != ".safetensors" && name != kModelIndex) continue;
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

// Reads the variable into `to`, with what its adapter adds.
absl::Status ReadMerged(const Export& out, const ModelVariable& variable, float* to) {
  const auto read = [&out](const std::string& name, int64_t count, float* floats) {
    return Annotate(
        out.weights.Read(name, count * static_cast<int64_t>(sizeof(float)), reinterpret_cast<char*>(floats)),
        absl::StrCat("variable '", name, "'"));
  };
  OF_RETURN_IF_ERROR(read(variable.name, variable.type.shape.count(), to));
  if (out.model.adapted.count(variable.name) == 0) return absl::OkStatus();
  const int64_t rows = variable.type.shape[0], columns = variable.type.shape[1], rank = out.model.adapter_rank;
  std::vector<float> a(static_cast<size_t>(rows * rank)), b(static_cast<size_t>(rank * columns));
  OF_RETURN_IF_ERROR(read(AdapterA(variable.name), rows * rank, a.data()));
  OF_RETURN_IF_ERROR(read(AdapterB(variable.name), rank * columns, b.data()));
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

absl::Status Convert(const Export& out, const TheirTensor& tensor, DType dtype, const SafetensorsWriter& writer) {
  const int64_t count = tensor.shape.count();
  std::vector<float> floats(static_cast<size_t>(count));
  for (const Piece& piece : tensor.pieces) {
    const ModelVariable& variable = out.model.variables[piece.variable];
    const bool is_whole = IsWhole(piece, tensor.shape);
    std::vector<float> ours(is_whole ? 0 : static_cast<size_t>(variable.type.shape.count()));
    std::vector<float>& to = is_whole ? floats : ours;
    OF_RETURN_IF_ERROR(ReadMerged(out, variable, to.data()));
    if (!is_whole) PutIn(piece, tensor.shape, ours.data(), floats.data());
  }
  if (dtype == DType::kFloat32) return writer.Write(tensor.name, 0, floats.data(), count * SizeOf(dtype));
  std::vector<char> bytes(static_cast<size_t>(TensorType{dtype, tensor.shape}.num_bytes()));
  OF_RETURN_IF_ERROR(FromFloats(floats.data(), count, dtype, bytes.data()));
  return writer.Write(tensor.name, 0, bytes.data(), static_cast<int64_t>(bytes.size()));
}

absl::Status WriteShard(const Export& out, const std::vector<const TheirTensor*>& tensors, DType dtype,
                        const std::string& path) {
  std::vector<SafetensorsWriter::Tensor> list;
  for (const TheirTensor* const tensor : tensors) list.push_back({tensor->name, {dtype, tensor->shape}});
  const std::string partial = absl::StrCat(path, ".partial");
  OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(partial, list, {{"format", "pt"}}));
  absl::Cleanup remove = [&partial] { unlink(partial.c_str()); };
  for (const TheirTensor* const tensor : tensors) {
    OF_RETURN_IF_ERROR_AT(Convert(out, *tensor, dtype, writer), absl::StrCat("tensor '", tensor->name, "'"));
  }
  OF_RETURN_IF_ERROR(writer.Close());
  OF_RETURN_IF_ERROR(Rename(partial, path));
  std::move(remove).Cancel();
  return absl::OkStatus();
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

}  // namespace

absl::StatusOr<std::string> ExportWeights(SourcedConfig job, const ExportOptions& options) {
  OF_RETURN_IF_ERROR(CheckFree(options.out));
  OF_ASSIGN_OR_RETURN(const Export out, Prepare(std::move(job), options));
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
