#include "tools/study/weights/peft.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/study/weights/complaints.h"
#include "tools/study/weights/elements.h"
#include "tools/study/weights/hf_config.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

constexpr char kBase[] = "base_model.model.";

// x [rows, columns] as [columns, rows].
std::vector<float> Transposed(const std::vector<float>& x, int64_t rows, int64_t columns) {
  std::vector<float> y(x.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
  }
  return y;
}

absl::StatusOr<AdaptedModule::Part> PartOf(const JobModel& model, const TheirTensor& tensor, const Piece& piece,
                                           int outputs) {
  const ModelVariable& variable = model.variables[piece.variable];
  AdaptedModule::Part part = {.variable = variable.name,
                              .shape = variable.type.shape,
                              .has_adapter = model.adapted.count(variable.name) > 0,
                              .read_transposed = model.read_transposed.count(variable.name) > 0,
                              .begin = piece.begin,
                              .extent = piece.extent};
  if (piece.axis == outputs) return part;
  if (piece.extent == tensor.shape[piece.axis]) {
    part.begin = 0;
    part.extent = tensor.shape[outputs];
    return part;
  }
  return absl::UnimplementedError(absl::StrCat("tensor '", tensor.name, "': '", variable.name,
                                               "' is of some of its inputs, and PEFT's adapters are of all"));
}

absl::StatusOr<AdaptedModule> ModuleOf(const JobModel& model, const TheirTensor& tensor) {
  const auto outputs_last = [&](const Piece& piece) {
    const bool read_transposed = model.read_transposed.count(model.variables[piece.variable].name) > 0;
    return piece.transpose == read_transposed;
  };
  AdaptedModule module;
  const auto adapted = std::find_if(tensor.pieces.begin(), tensor.pieces.end(), [&](const Piece& piece) {
    return model.adapted.count(model.variables[piece.variable].name) > 0;
  });
  module.outputs_last = outputs_last(*adapted);
  module.name = std::string(absl::StripSuffix(tensor.name, ".weight"));
  module.inputs = tensor.shape[module.outputs_last ? 0 : 1];
  module.outputs = tensor.shape[module.outputs_last ? 1 : 0];
  for (const Piece& piece : tensor.pieces) {
    OF_ASSIGN_OR_RETURN(module.parts.emplace_back(), PartOf(model, tensor, piece, module.outputs_last ? 1 : 0));
    const AdaptedModule::Part& part = module.parts.back();
    module.num_adapters += part.has_adapter;
    if (!part.has_adapter || outputs_last(piece) == module.outputs_last) continue;
    return absl::UnimplementedError(absl::StrCat("tensor '", tensor.name, "': '", part.variable, "' and '",
                                                 module.parts[0].variable, "' lie in it in two ways"));
  }
  return module;
}

absl::StatusOr<std::vector<float>> ReadFloats(const Weights& weights, const std::string& name) {
  const StoredType& type = weights.tensors().at(name).type;
  OF_ASSIGN_OR_RETURN(const std::vector<char> bytes, ReadWhole(weights, name));
  std::vector<float> floats(static_cast<size_t>(type.shape.count()));
  OF_RETURN_IF_ERROR_AT(ToFloats(type.dtype, bytes.data(), type.shape.count(), floats.data()),
                        absl::StrCat("tensor '", name, "'"));
  return floats;
}

// Whether lora_B [outputs, rank] is 0 in these rows, but for these columns.
bool IsZero(const std::vector<float>& b, int64_t rank, int64_t begin, int64_t extent, int64_t but = 0,
            int64_t so_many = 0) {
  for (int64_t i = begin; i < begin + extent; ++i) {
    for (int64_t k = 0; k < rank; ++k) {
      if ((k < but || k >= but + so_many) && b[i * rank + k] != 0) return false;
    }
  }
  return true;
}

// The value for a module of `alpha_pattern`, by the first key that the module's name is or ends with, as PEFT finds it;
// `otherwise` if there is none. InvalidArgument if a key is a pattern.
absl::StatusOr<double> AlphaOf(const Json& config, const std::string& module, double otherwise) {
  const auto patterns = config.find("alpha_pattern");
  if (patterns == config.end() || !patterns->is_object()) return otherwise;
  for (const auto& [key, value] : patterns->items()) {
    if (key.find_first_of("*+?[](){}|^$\\") != std::string::npos || !value.is_number()) {
      return absl::InvalidArgumentError(
          absl::StrCat("alpha_pattern: '", key, "': ", ValueText(value),
                       " is no number for a module's name; regular expressions are not read"));
    }
    if (module == key || absl::EndsWith(module, absl::StrCat(".", key))) return value.get<double>();
  }
  return otherwise;
}

// InvalidArgument, naming field and value, for what our adapters cannot be.
absl::Status CheckKind(const Json& config) {
  struct Wanted {
    const char* field;
    Json usual;
  };
  const Wanted kWanted[] = {{"peft_type", "LORA"},    {"bias", "none"},          {"use_dora", false},
                            {"lora_bias", false},     {"layer_replication", {}}, {"megatron_config", {}},
                            {"target_parameters", {}}};
  for (const auto& [field, usual] : kWanted) {
    const auto there = config.find(field);
    if (there == config.end() || *there == usual || there->is_null()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", ValueText(*there), "; a job's adapters are such as have ", ValueText(usual)));
  }
  return absl::OkStatus();
}

// The factor of the module's product: lora_alpha / r, or over its root.
absl::StatusOr<double> ScaleOf(const Json& config, const std::string& module, int64_t rank) {
  const auto alpha = config.find("lora_alpha"), root = config.find("use_rslora");
  if (alpha == config.end() || !alpha->is_number()) return absl::InvalidArgumentError("lora_alpha is no number");
  OF_ASSIGN_OR_RETURN(const double of_module, AlphaOf(config, module, alpha->get<double>()));
  const auto r = static_cast<double>(rank);
  return of_module / (root != config.end() && *root == true ? std::sqrt(r) : r);
}

}  // namespace

std::string AdaptedModule::lora_a() const { return absl::StrCat(kBase, name, ".lora_A.weight"); }
std::string AdaptedModule::lora_b() const { return absl::StrCat(kBase, name, ".lora_B.weight"); }
std::string SavedName(const std::string& tensor) { return absl::StrCat(kBase, tensor); }

absl::StatusOr<std::vector<AdaptedModule>> AdaptedModules(const JobModel& model,
                                                          const std::vector<TheirTensor>& tensors) {
  std::vector<AdaptedModule> modules;
  for (const TheirTensor& tensor : tensors) {
    const bool is_adapted = std::any_of(tensor.pieces.begin(), tensor.pieces.end(), [&](const Piece& piece) {
      return model.adapted.count(model.variables[piece.variable].name) > 0;
    });
    if (!is_adapted) continue;
    OF_ASSIGN_OR_RETURN(modules.emplace_back(), ModuleOf(model, tensor));
  }
  return modules;
}

LowRank TheirsOf(const AdaptedModule::Part& part, const LowRank& ours, int64_t rank) {
  if (part.read_transposed) return {ours.b, ours.a};
  return {Transposed(ours.a, part.shape[0], rank), Transposed(ours.b, rank, part.shape[1])};
}

LowRank OursOf(const AdaptedModule::Part& part, const LowRank& theirs, int64_t rank) {
  if (part.read_transposed) return {theirs.b, theirs.a};
  return {Transposed(theirs.a, rank, part.shape[0]), Transposed(theirs.b, part.shape[1], rank)};
}

LowRank Joined(const AdaptedModule& module, const std::vector<LowRank>& parts, int64_t rank) {
  const int64_t all = rank * module.num_adapters;
  LowRank joined = {{}, std::vector<float>(static_cast<size_t>(module.outputs * all))};
  size_t next = 0;
  for (const AdaptedModule::Part& part : module.parts) {
    if (!part.has_adapter) continue;
    const LowRank& factors = parts[next];
    joined.a.insert(joined.a.end(), factors.a.begin(), factors.a.end());
    for (int64_t i = 0; i < part.extent; ++i) {
      std::copy_n(factors.b.begin() + i * rank, rank,
                  joined.b.begin() + (part.begin + i) * all + static_cast<int64_t>(next) * rank);
    }
    ++next;
  }
  return joined;
}

nlohmann::ordered_json PeftConfig(const JobModel& model, const std::vector<AdaptedModule>& modules,
                                  const std::set<std::string>& saved) {
  const auto number = [](double x) { return x == std::floor(x) ? Json(static_cast<int64_t>(x)) : Json(x); };
  const double alpha = model.adapter_scale * static_cast<double>(model.adapter_rank);
  nlohmann::ordered_json names = nlohmann::ordered_json::array(), ranks = nlohmann::ordered_json::object(),
                         alphas = ranks;
  bool outputs_last = false;
  for (const AdaptedModule& module : modules) {
    names.push_back(module.name);
    outputs_last |= module.outputs_last;
    if (module.num_adapters == 1) continue;
    ranks[module.name] = module.num_adapters * model.adapter_rank;
    alphas[module.name] = number(static_cast<double>(module.num_adapters) * alpha);
  }
  return {{"peft_type", "LORA"},
          {"task_type", nullptr},
          {"base_model_name_or_path", nullptr},
          {"inference_mode", true},
          {"r", model.adapter_rank},
          {"lora_alpha", number(alpha)},
          {"lora_dropout", model.config.config.train().lora().dropout()},
          {"target_modules", names},
          {"rank_pattern", ranks},
          {"alpha_pattern", alphas},
          {"modules_to_save", saved.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(saved)},
          {"fan_in_fan_out", outputs_last},
          {"bias", "none"},
          {"use_rslora", false},
          {"use_dora", false}};
}

absl::StatusOr<PeftFolder> PeftFolder::Open(const std::string& folder, const JobModel& model,
                                            const std::vector<TheirTensor>& tensors, const std::string& prefix) {
  if (model.adapted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", folder, "' has adapters, and ", model.config.Where("train.lora"), ": the job has none"));
  }
  const std::string file = absl::StrCat(folder, "/", kAdapterFile);
  OF_ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::OpenFile(file));
  PeftFolder opened{Weights(std::move(files))};
  opened.rank_ = model.adapter_rank;
  OF_ASSIGN_OR_RETURN(opened.modules_, AdaptedModules(model, tensors));
  OF_RETURN_IF_ERROR(opened.Compare(folder, model, tensors, prefix));
  OF_ASSIGN_OR_RETURN(const Json config, ReadHfConfig(folder, kAdapterConfig));
  const std::string where = absl::StrCat("'", folder, "/", kAdapterConfig, "'");
  OF_RETURN_IF_ERROR_AT(CheckKind(config), where);
  for (const AdaptedModule& module : opened.modules_) {
    const int64_t rank = opened.weights_.tensors().at(opened.Found(module.lora_a())).type.shape[0];
    OF_ASSIGN_OR_RETURN_AT(const double scale, ScaleOf(config, module.name, rank), where);
    if (std::abs(scale - model.adapter_scale) <= 1e-9 * std::abs(scale)) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, ": module '", module.name, "' is multiplied by ", scale,
                                                   ", and ", model.config.Where("train.lora"), ": alpha / rank is ",
                                                   model.adapter_scale));
  }
  return opened;
}

std::string PeftFolder::Found(const std::string& name) const {
  if (weights_.tensors().count(name) > 0) return name;
  const absl::string_view rest = absl::StripPrefix(name, kBase);
  const std::string without = absl::StrCat(kBase, absl::StripPrefix(rest, prefix_));
  return weights_.tensors().count(without) > 0 ? without : "";
}

std::string PeftFolder::Saved(const std::string& tensor) const {
  const std::string name = Found(SavedName(tensor));
  return saved_.count(name) > 0 ? name : "";
}

absl::Status PeftFolder::Compare(const std::string& folder, const JobModel& model,
                                 const std::vector<TheirTensor>& tensors, const std::string& prefix) {
  prefix_ = prefix;
  WeightComplaints complaints;
  std::set<std::string> known;
  const auto compare = [&](const std::string& name, const std::vector<Shape>& allowed) {
    const std::string found = Found(name);
    known.insert(found);
    if (found.empty()) return complaints.Missing(name, absl::StrCat("f32", allowed[0].ToString()));
    const StoredType& has = weights_.tensors().at(found).type;
    const bool fits = has.dtype.is_floating() && std::find(allowed.begin(), allowed.end(), has.shape) != allowed.end();
    if (!fits) complaints.Misshapen(found, has.ToString(), absl::StrCat("f32", allowed[0].ToString()));
  };
  for (const AdaptedModule& module : modules_) {
    const int64_t all = rank_ * module.num_adapters;
    compare(module.lora_a(), {{rank_, module.inputs}, {all, module.inputs}});
    compare(module.lora_b(), {{module.outputs, rank_}, {module.outputs, all}});
    const std::string a = Found(module.lora_a()), b = Found(module.lora_b());
    if (a.empty() || b.empty()) continue;
    const Shape &of_a = weights_.tensors().at(a).type.shape, &of_b = weights_.tensors().at(b).type.shape;
    if (of_a.rank() == 2 && of_b.rank() == 2 && of_a[0] != of_b[1]) {
      complaints.Misshapen(b, of_b.ToString(), absl::StrCat("as many columns as ", a, " has rows, ", of_a[0]));
    }
  }
  for (const TheirTensor& tensor : tensors) {
    const std::string name = Found(SavedName(tensor.name));
    if (name.empty()) continue;
    saved_.insert(name);
    compare(SavedName(tensor.name), {tensor.shape});
  }
  for (const auto& [name, tensor] : weights_.tensors()) {
    if (known.count(name) == 0) complaints.Surplus(name, tensor.type);
  }
  return complaints.AsError(absl::StrCat("'", folder, "' for ", model.config.Where("train.lora")));
}

absl::StatusOr<std::vector<LowRank>> PeftFolder::FactorsOf(const AdaptedModule& module) const {
  const std::string a_name = Found(module.lora_a()), b_name = Found(module.lora_b());
  OF_ASSIGN_OR_RETURN(const std::vector<float> a, ReadFloats(weights_, a_name));
  OF_ASSIGN_OR_RETURN(const std::vector<float> b, ReadFloats(weights_, b_name));
  const int64_t all = weights_.tensors().at(a_name).type.shape[0];
  std::vector<LowRank> of_parts;
  int64_t block = 0;  // of lora_A's rows, where each part has some of its own
  for (const AdaptedModule::Part& part : module.parts) {
    LowRank& factors = of_parts.emplace_back();
    const auto error = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", b_name, "': ", what, " '", part.variable, "'"));
    };
    if (!part.has_adapter) {
      if (IsZero(b, all, part.begin, part.extent)) continue;
      return error("is not 0 for outputs that have no adapter in the job, those of");
    }
    const bool own_rows = all != rank_;
    if (own_rows && !IsZero(b, all, part.begin, part.extent, block, rank_)) {
      return error(absl::StrCat("more than ", rank_, " columns count for outputs of"));
    }
    const int64_t first = own_rows ? block : 0;
    LowRank theirs = {{a.begin() + first * module.inputs, a.begin() + (first + rank_) * module.inputs}, {}};
    for (int64_t i = part.begin; i < part.begin + part.extent; ++i) {
      theirs.b.insert(theirs.b.end(), b.begin() + i * all + first, b.begin() + i * all + first + rank_);
    }
    factors = OursOf(part, theirs, rank_);
    block += rank_;
  }
  return of_parts;
}

}  // namespace oneflow
