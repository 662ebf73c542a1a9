#include "tools/study/weights/import_weights.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "actor/checkpoint/fresh_variables.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/output_file.h"
#include "compiler/adapters.h"
#include "tools/job/outputs.h"
#include "tools/study/weights/complaints.h"
#include "tools/study/weights/elements.h"
#include "tools/study/weights/hf_config.h"
#include "tools/study/weights/model_variables.h"
#include "tools/study/weights/peft.h"
#include "tools/study/weights/weights.h"

namespace oneflow {
namespace {

// Everything that an import reads and decides before it writes.
struct Import {
  JobModel model;
  Mapping mapping;
  Weights weights;
  std::vector<TheirTensor> tensors;  // that are converted
  std::set<std::string> fresh;       // variables that are missing, as is allowed
  std::optional<PeftFolder> adapters = std::nullopt;
};

absl::Status CheckConfig(const JobModel& model, const Mapping& mapping, const std::string& folder) {
  OF_ASSIGN_OR_RETURN(const nlohmann::json config, ReadHfConfig(folder));
  const std::string file = absl::StrCat("'", folder, "/", kConfigFile, "'");
  const pb::Family* const family = FamilyOf(mapping, config, model.fields);
  if (family == nullptr) {
    const auto type = config.find("model_type");
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": model_type is ", type == config.end() ? "missing" : ValueText(*type), ", and mapping '", mapping.name,
        "' of ", model.Where(""), " is for ",
        absl::StrJoin(mapping.table.families(), ", ",
                      [](std::string* out, const pb::Family& one) { absl::StrAppend(out, one.model_type()); })));
  }
  OF_ASSIGN_OR_RETURN_AT(const std::vector<ConfigDifference> differences,
                         CompareConfig(mapping, *family, config, model.fields), file);
  if (differences.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const ConfigDifference& one : differences) {
    lines.push_back(absl::StrCat(model.Where(one.ours), ": is ", one.our_value, ", but ", one.theirs, " in ", file,
                                 " is ", one.their_value));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n  "));
}

// Files of a model without its head lack the prefix of all names.
void DropAbsentPrefix(const Weights& weights, Mapping& mapping, Correspondence& correspondence) {
  const std::string& prefix = mapping.table.prefix();
  const bool has_it = std::any_of(weights.tensors().begin(), weights.tensors().end(),
                                  [&](const auto& tensor) { return absl::StartsWith(tensor.first, prefix); });
  if (prefix.empty() || has_it) return;
  const auto drop = [&](const std::string& name) { return std::string(absl::StripPrefix(name, prefix)); };
  for (TheirTensor& tensor : correspondence.tensors) tensor.name = drop(tensor.name);
  for (pb::TiedTensor& tied : *mapping.table.mutable_tied()) {
    tied.set_theirs(drop(tied.theirs()));
    tied.set_to(drop(tied.to()));
  }
}

bool Fits(const StoredType& has, const TheirTensor& needed) {
  if (!has.dtype.is_floating()) return false;
  if (!needed.leading_rows) return has.shape == needed.shape;
  if (has.shape.rank() != needed.shape.rank() || has.shape[0] < needed.shape[0]) return false;
  for (int d = 1; d < needed.shape.rank(); ++d) {
    if (has.shape[d] != needed.shape[d]) return false;
  }
  return true;
}

// "h0/attn/q/weight, h0/attn/k/weight".
std::string VariablesOf(const TheirTensor& tensor, const std::vector<ModelVariable>& variables) {
  return absl::StrJoin(tensor.pieces, ", ",
                       [&](std::string* out, const Piece& piece) { out->append(variables[piece.variable].name); });
}

class Comparison {
 public:
  Comparison(const ImportOptions& options, Import& import) : options_(options), import_(import) {}

  // Fills in which tensors are converted and which variables are fresh.
  absl::Status Compare(const Correspondence& correspondence) {
    for (const int variable : correspondence.unnamed) {
      const ModelVariable& of = import_.model.variables[variable];
      if (Allow(of.name)) continue;
      complaints_.Missing(of.name, absl::StrCat("and mapping '", import_.mapping.name, "' has no rule for it"));
    }
    for (const TheirTensor& tensor : correspondence.tensors) CompareOne(tensor);
    OF_RETURN_IF_ERROR(CheckPatterns());
    for (const auto& [name, tensor] : import_.weights.tensors()) {
      if (needed_.count(name) > 0 || import_.mapping.Skips(name) || IsTied(name)) continue;
      complaints_.Surplus(name, tensor.type);
    }
    return complaints_.AsError(absl::StrCat("'", options_.folder, "' for ", import_.model.Where("")));
  }

 private:
  bool Allow(const std::string& variable) {
    const bool allowed = std::any_of(options_.allow_missing.begin(), options_.allow_missing.end(),
                                     [&](const std::string& pattern) { return Matches(pattern, variable); });
    if (allowed) import_.fresh.insert(variable);
    return allowed;
  }

  void CompareOne(const TheirTensor& tensor) {
    needed_.insert(tensor.name);
    const std::vector<ModelVariable>& variables = import_.model.variables;
    const std::string needed = absl::StrCat("f32", tensor.shape.ToString(), " for ", VariablesOf(tensor, variables));
    const auto there = import_.weights.tensors().find(tensor.name);
    if (there != import_.weights.tensors().end()) {
      if (Fits(there->second.type, tensor)) {
        import_.tensors.push_back(tensor);
      } else {
        complaints_.Misshapen(tensor.name, there->second.type.ToString(), needed);
      }
      return;
    }
    bool all_allowed = true;
    for (const Piece& piece : tensor.pieces) all_allowed &= Allow(variables[piece.variable].name);
    if (!all_allowed) complaints_.Missing(tensor.name, needed);
  }

  bool IsTied(const std::string& name) const {
    return std::any_of(import_.mapping.table.tied().begin(), import_.mapping.table.tied().end(),
                       [&](const pb::TiedTensor& tied) { return tied.theirs() == name; });
  }

  absl::Status CheckPatterns() const {
    for (const std::string& pattern : options_.allow_missing) {
      const bool names_any = std::any_of(import_.model.variables.begin(), import_.model.variables.end(),
                                         [&](const ModelVariable& one) { return Matches(pattern, one.name); });
      if (names_any) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--allow-missing '", pattern, "': is the name of no variable of ", import_.model.Where("")));
    }
    return absl::OkStatus();
  }

  const ImportOptions& options_;
  Import& import_;
  std::set<std::string> needed_;  // tensors of theirs
  WeightComplaints complaints_;
};

// A tied tensor that the file has all the same says nothing else than what it is tied to.
absl::Status CheckTied(const Import& import) {
  for (const pb::TiedTensor& tied : import.mapping.table.tied()) {
    const bool is_converted = std::any_of(import.tensors.begin(), import.tensors.end(),
                                          [&](const TheirTensor& one) { return one.name == tied.theirs(); });
    const auto head = import.weights.tensors().find(tied.theirs()), to = import.weights.tensors().find(tied.to());
    if (is_converted || head == import.weights.tensors().end() || to == import.weights.tensors().end()) continue;
    bool same = head->second.type == to->second.type;
    if (same) {
      OF_ASSIGN_OR_RETURN(const std::vector<char> a, ReadWhole(import.weights, tied.theirs()));
      OF_ASSIGN_OR_RETURN(const std::vector<char> b, ReadWhole(import.weights, tied.to()));
      same = a == b;
    }
    if (same) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tied.theirs(), "', ", head->second.type.ToString(),
                                                   ", is not '", tied.to(), "', ", to->second.type.ToString(),
                                                   ", to which ", import.model.Where(""), " ties it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Import> Prepare(SourcedConfig job, const ImportOptions& options) {
  OF_ASSIGN_OR_RETURN(JobModel model, ModelOf(std::move(job)));
  OF_ASSIGN_OR_RETURN(Mapping mapping, MappingFor(model, options.mapping));
  OF_RETURN_IF_ERROR(CheckConfig(model, mapping, options.folder));
  OF_ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::OpenFolder(options.folder));
  Import import{std::move(model), std::move(mapping), Weights(std::move(files)), {}, {}};
  OF_ASSIGN_OR_RETURN(Correspondence correspondence, Correspond(import.mapping, import.model.variables));
  DropAbsentPrefix(import.weights, import.mapping, correspondence);
  OF_RETURN_IF_ERROR(Comparison(options, import).Compare(correspondence));
  OF_RETURN_IF_ERROR_AT(CheckTied(import), absl::StrCat("'", options.folder, "'"));
  if (options.adapters.empty()) return import;
  OF_ASSIGN_OR_RETURN(import.adapters, PeftFolder::Open(options.adapters, import.model, correspondence.tensors,
                                                        import.mapping.table.prefix()));
  return import;
}

absl::Status Convert(const Import& import, const TheirTensor& tensor, const SafetensorsWriter& writer) {
  const int64_t count = tensor.shape.count();
  const std::string saved = import.adapters.has_value() ? import.adapters->Saved(tensor.name) : "";
  const Weights& weights = saved.empty() ? import.weights : import.adapters->weights();
  const std::string& name = saved.empty() ? tensor.name : saved;
  const StoredDType dtype = weights.tensors().at(name).type.dtype;
  const int64_t num_bytes = StoredType(dtype, tensor.shape).num_bytes();
  std::vector<float> floats(static_cast<size_t>(count)), ours;
  if (dtype == DType::kFloat32) {
    OF_RETURN_IF_ERROR(weights.Read(name, num_bytes, reinterpret_cast<char*>(floats.data())));
  } else {
    std::vector<char> bytes(static_cast<size_t>(num_bytes));
    OF_RETURN_IF_ERROR(weights.Read(name, num_bytes, bytes.data()));
    OF_RETURN_IF_ERROR(ToFloats(dtype, bytes.data(), count, floats.data()));
  }
  for (const Piece& piece : tensor.pieces) {
    const ModelVariable& variable = import.model.variables[piece.variable];
    const float* from = floats.data();
    if (!IsWhole(piece, tensor.shape)) {
      ours.resize(static_cast<size_t>(variable.type.shape.count()));
      CutOut(piece, tensor.shape, floats.data(), ours.data());
      from = ours.data();
    }
    OF_RETURN_IF_ERROR(writer.Write(variable.name, 0, from, variable.type.num_bytes()));
  }
  return absl::OkStatus();
}

// The adapters' variables in the file that is written.
std::vector<SafetensorsWriter::Tensor> AdapterVariables(const PeftFolder& adapters) {
  std::vector<SafetensorsWriter::Tensor> variables;
  for (const AdaptedModule& module : adapters.modules()) {
    for (const AdaptedModule::Part& part : module.parts) {
      if (!part.has_adapter) continue;
      variables.push_back({AdapterA(part.variable), {DType::kFloat32, {part.shape[0], adapters.rank()}}});
      variables.push_back({AdapterB(part.variable), {DType::kFloat32, {adapters.rank(), part.shape[1]}}});
    }
  }
  return variables;
}

absl::Status ConvertAdapters(const PeftFolder& adapters, const SafetensorsWriter& writer) {
  const auto write = [&](const std::string& name, const std::vector<float>& floats) {
    return writer.Write(name, 0, floats.data(), static_cast<int64_t>(floats.size() * sizeof(float)));
  };
  for (const AdaptedModule& module : adapters.modules()) {
    OF_ASSIGN_OR_RETURN(const std::vector<LowRank> factors, adapters.FactorsOf(module));
    for (size_t i = 0; i < module.parts.size(); ++i) {
      if (!module.parts[i].has_adapter) continue;
      OF_RETURN_IF_ERROR(write(AdapterA(module.parts[i].variable), factors[i].a));
      OF_RETURN_IF_ERROR(write(AdapterB(module.parts[i].variable), factors[i].b));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteAll(const Import& import, const std::string& out) {
  std::vector<SafetensorsWriter::Tensor> variables;
  for (const ModelVariable& variable : import.model.variables) {
    if (import.fresh.count(variable.name) == 0) variables.push_back({variable.name, variable.type});
  }
  if (import.adapters.has_value()) {
    for (SafetensorsWriter::Tensor& factor : AdapterVariables(*import.adapters)) variables.push_back(std::move(factor));
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!import.fresh.empty()) metadata[kFreshKey] = FreshText(import.fresh);
  OF_ASSIGN_OR_RETURN(const std::string target, FileToReplace(out));
  const std::string partial = absl::StrCat(target, ".partial");
  OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(partial, variables, metadata));
  absl::Cleanup remove = [&partial] { unlink(partial.c_str()); };
  for (const TheirTensor& tensor : import.tensors) {
    OF_RETURN_IF_ERROR_AT(Convert(import, tensor, writer), absl::StrCat("tensor '", tensor.name, "'"));
  }
  if (import.adapters.has_value()) OF_RETURN_IF_ERROR(ConvertAdapters(*import.adapters, writer));
  OF_RETURN_IF_ERROR(writer.Close());
  OF_RETURN_IF_ERROR(ReplaceFileBy(partial, target));
  std::move(remove).Cancel();
  return absl::OkStatus();
}

std::string Summary(const Import& import, const ImportOptions& options) {
  int64_t elements = 0;
  for (const ModelVariable& variable : import.model.variables) {
    if (import.fresh.count(variable.name) == 0) elements += variable.type.shape.count();
  }
  std::string text =
      absl::StrCat("wrote ", options.out, ": ", import.model.variables.size() - import.fresh.size(), " variables, ",
                   elements, " parameters, from ", import.tensors.size(), " tensors of ", options.folder, "\n");
  for (const TheirTensor& tensor : import.tensors) {
    const Shape& has = import.weights.tensors().at(tensor.name).type.shape;
    if (has == tensor.shape) continue;
    absl::StrAppend(&text, "of ", tensor.name, " the first ", tensor.shape[0], " of ", has[0], " rows\n");
  }
  if (import.adapters.has_value()) {
    absl::StrAppend(&text, "with adapters of ", import.model.adapted.size(), " variables from ", options.adapters,
                    "\n");
  }
  for (const std::string& name : import.fresh) absl::StrAppend(&text, "starts with fresh values: ", name, "\n");
  return text;
}

}  // namespace

absl::StatusOr<std::string> ImportWeights(SourcedConfig job, const ImportOptions& options) {
  std::vector<NamedPath> inputs = {{"the job", job.file}};
  OF_ASSIGN_OR_RETURN(const Import import, Prepare(std::move(job), options));
  for (const std::string& file : import.weights.Files()) inputs.push_back({"the folder's weights", file});
  if (import.adapters.has_value()) {
    for (const std::string& file : import.adapters->weights().Files()) inputs.push_back({"--adapters", file});
  }
  OF_RETURN_IF_ERROR(CheckApart({{"--out", options.out}}, inputs));
  OF_RETURN_IF_ERROR(WriteAll(import, options.out));
  return Summary(import, options);
}

}  // namespace oneflow
