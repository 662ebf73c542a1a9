#include "tools/job/plugins.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/plugin.h"
#include "compiler/lower/compile.h"
#include "oneflow_core/ops/ops.h"
#include "tools/job/read_text.h"

namespace oneflow {
namespace {

// The rows of one library, until all of them are known to be right.
class Rows final : public Plugin {
 public:
  void Add(OpDef op) override { ops_.push_back(std::move(op)); }
  void Add(HostFunctionKind function) override { functions_.push_back(function); }
  void AddCpu(Kernel kernel) override { cpu_.push_back(kernel); }
  void AddCuda(Kernel kernel) override { cuda_.push_back(kernel); }
  void Add(DataKind kind, SourceKind source) override { data_.emplace_back(std::move(kind), source); }
  void Add(OptimizerRule rule) override { rules_.push_back(std::move(rule)); }
  void Add(ModelDef model) override { models_.push_back(std::move(model)); }

  // InvalidArgument naming the row and what is wrong with it.
  absl::Status Check() const {
    const OpRegistry known = StandardOps();
    for (const OpDef& op : ops_) OF_RETURN_IF_ERROR_AT(CheckOp(op, known), absl::StrCat("op '", op.name, "'"));
    for (const OptimizerRule& rule : rules_) {
      OF_RETURN_IF_ERROR_AT(CheckRule(rule, known), absl::StrCat("optimizer '", rule.name, "'"));
    }
    for (const std::vector<Kernel>* kernels : {&cpu_, &cuda_}) OF_RETURN_IF_ERROR(CheckKernels(*kernels));
    for (const HostFunctionKind& it : functions_) {
      const bool ours = it.op != nullptr && it.open != nullptr && IsOurs(it.op, OpKind::kCall);
      if (!ours) return Wrong("a host function", Text(it.op), "is not of an op of kind kCall of this library");
    }
    for (const auto& [kind, source] : data_) {
      OF_RETURN_IF_ERROR_AT(CheckData(kind, source), absl::StrCat("data '", kind.name, "'"));
    }
    for (const ModelDef& model : models_) {
      OF_RETURN_IF_ERROR_AT(CheckModel(model), absl::StrCat("model '", model.name, "'"));
    }
    return absl::OkStatus();
  }

  // Into the engine's tables. REQUIRES: Check() is OK.
  void Keep() const {
    for (const OpDef& op : ops_) AddStandardOp(op);
    for (const OptimizerRule& rule : rules_) AddOptimizerRule(rule);
    for (const Kernel& kernel : cpu_) AddCpuKernel(kernel);
    for (const Kernel& kernel : cuda_) AddCudaKernel(kernel);
    for (const HostFunctionKind& function : functions_) AddHostFunction(function);
    for (const auto& [kind, source] : data_) {
      AddDataKind(kind);
      AddSource(source);
    }
    for (const ModelDef& model : models_) AddModel(model);
  }

 private:
  static std::string Text(const char* text) { return text == nullptr ? "(null)" : text; }
  static absl::Status Wrong(absl::string_view what, absl::string_view name, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(what, " '", name, "' ", why));
  }
  static absl::Status Wrong(absl::string_view why) { return absl::InvalidArgumentError(why); }

  static absl::Status CheckName(absl::string_view name) {
    const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    });
    return good ? absl::OkStatus() : Wrong("a name consists of a-z, 0-9 and _");
  }

  // Whether this library adds such an op. A rule without `build` brings "<name>_update".
  bool IsOurs(absl::string_view op, OpKind kind) const {
    for (const OpDef& it : ops_) {
      if (it.name == op) return it.kind == kind;
    }
    return kind == OpKind::kCompute && std::any_of(rules_.begin(), rules_.end(), [&](const OptimizerRule& rule) {
             return rule.build == nullptr && absl::StrCat(rule.name, "_update") == op;
           });
  }

  bool HasKernel(absl::string_view op) const {
    const auto of_it = [&](const Kernel& kernel) { return kernel.op != nullptr && op == kernel.op; };
    return std::any_of(cpu_.begin(), cpu_.end(), of_it) || std::any_of(cuda_.begin(), cuda_.end(), of_it);
  }

  absl::Status CheckOp(const OpDef& op, const OpRegistry& known) const {
    OF_RETURN_IF_ERROR(CheckName(op.name));
    if (known.Find(op.name) != nullptr) return Wrong("exists already");
    if (std::count_if(ops_.begin(), ops_.end(), [&](const OpDef& it) { return it.name == op.name; }) > 1) {
      return Wrong("is added twice");
    }
    if (op.kind != OpKind::kCompute && op.kind != OpKind::kCall) return Wrong("its kind is neither kCompute nor kCall");
    if (op.infer == nullptr) return Wrong("has no `infer`");
    const bool ruled = !op.rule.empty() || op.rule_for != nullptr;
    if (!ruled && op.kind == OpKind::kCompute) return Wrong("has no `rule`");
    if (op.is_elementwise || op.is_sum || op.packs || !op.packed.empty() || op.forms != nullptr || op.blocks) {
      return Wrong("is_elementwise, is_sum, packs, packed, forms and blocks are for ops of the engine");
    }
    const bool called = std::any_of(functions_.begin(), functions_.end(),
                                    [&](const HostFunctionKind& it) { return it.op != nullptr && op.name == it.op; });
    if (op.kind == OpKind::kCall && !called) return Wrong("is a kCall, but has no host function");
    if (op.kind == OpKind::kCompute && !HasKernel(op.name)) return Wrong("has no kernel for any device");
    return absl::OkStatus();
  }

  absl::Status CheckKernels(const std::vector<Kernel>& kernels) const {
    for (const Kernel& kernel : kernels) {
      if (kernel.op == nullptr || kernel.run == nullptr) return Wrong("a kernel", Text(kernel.op), "has no function");
      if (!IsOurs(kernel.op, OpKind::kCompute)) return Wrong("a kernel", kernel.op, "is of no op of this library");
      const auto same = [&](const Kernel& it) {
        return absl::string_view(it.op) == kernel.op && it.dtype == kernel.dtype;
      };
      if (std::count_if(kernels.begin(), kernels.end(), same) > 1) {
        return Wrong("a kernel", kernel.op, absl::StrCat("for ", Name(kernel.dtype), " is added twice"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRule(const OptimizerRule& rule, const OpRegistry& known) const {
    OF_RETURN_IF_ERROR(CheckName(rule.name));
    const std::string update = absl::StrCat(rule.name, "_update");
    if (FindOptimizerRule(rule.name) != nullptr || known.Find(update) != nullptr) return Wrong("exists already");
    if (std::count_if(rules_.begin(), rules_.end(), [&](const auto& it) { return it.name == rule.name; }) > 1) {
      return Wrong("is added twice");
    }
    if (rule.build == nullptr && !HasKernel(update)) {
      return Wrong(absl::StrCat("has neither `build` nor kernels for '", update, "'"));
    }
    if (!rule.others.empty() && FindOptimizerRule(rule.others) == nullptr) {
      return Wrong(absl::StrCat("others: there is no optimizer '", rule.others, "'"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckData(const DataKind& kind, const SourceKind& source) const {
    OF_RETURN_IF_ERROR(CheckName(kind.name));
    if (FindDataKind(kind.name).ok()) return Wrong("exists already");
    if (std::count_if(data_.begin(), data_.end(), [&](const auto& it) { return it.first.name == kind.name; }) > 1) {
      return Wrong("is added twice");
    }
    if (kind.types == nullptr) return Wrong("has no `types`");
    if (source.open == nullptr) return Wrong("its source has no `open`");
    if (Text(source.name) != kind.name) return Wrong(absl::StrCat("its source is called '", Text(source.name), "'"));
    return absl::OkStatus();
  }

  absl::Status CheckModel(const ModelDef& model) const {
    OF_RETURN_IF_ERROR(CheckName(model.name));
    if (FindModel(model.name) != nullptr) return Wrong("exists already");
    if (std::count_if(models_.begin(), models_.end(), [&](const auto& it) { return it.name == model.name; }) > 1) {
      return Wrong("is added twice");
    }
    if (model.build == nullptr) return Wrong("has no `build`");
    for (const std::string& reads : model.reads) {
      const auto adds = [&](const auto& it) { return it.first.name == reads; };
      if (FindDataKind(reads).ok() || std::any_of(data_.begin(), data_.end(), adds)) continue;
      return Wrong(absl::StrCat("reads '", reads, "', and there is no such data"));
    }
    return absl::OkStatus();
  }

  std::vector<OpDef> ops_;
  std::vector<HostFunctionKind> functions_;
  std::vector<Kernel> cpu_, cuda_;
  std::vector<std::pair<DataKind, SourceKind>> data_;
  std::vector<OptimizerRule> rules_;
  std::vector<ModelDef> models_;
};

absl::Status Declare(const std::function<void(Plugin&)>& declare) {
  Rows rows;
  try {
    declare(rows);
  } catch (const std::exception& thrown) {
    return absl::InvalidArgumentError(absl::StrCat("it threw while it declared its rows: ", thrown.what()));
  }
  OF_RETURN_IF_ERROR(rows.Check());
  rows.Keep();
  return absl::OkStatus();
}

// A file of its own in memory with these bytes. -1 with errno if there is no room.
int MemoryFile(const std::string& bytes) {
  const int fd = memfd_create("oneflow-plugin", MFD_CLOEXEC);
  for (size_t done = 0; fd >= 0 && done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(fd);
      return -1;
    }
    done += n;
  }
  return fd;
}

absl::Status LoadBytes(const std::string& bytes) {
  const int fd = MemoryFile(bytes);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot be held in memory: ", std::strerror(errno)));
  void* const library = dlopen(absl::StrCat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string why = library == nullptr ? dlerror() : "";
  close(fd);
  if (library == nullptr) return absl::InvalidArgumentError(absl::StrCat("cannot be loaded: ", why));
  const auto abi = reinterpret_cast<const char* (*)()>(dlsym(library, "oneflow_plugin_abi"));
  const auto declare = reinterpret_cast<void (*)(Plugin&)>(dlsym(library, "oneflow_plugin_declare"));
  if (abi == nullptr || declare == nullptr) {
    dlclose(library);
    return absl::InvalidArgumentError("is no plugin: it lacks ONEFLOW_PLUGIN (actor/plugin.h)");
  }
  const std::string built_for = abi();
  absl::Status status;
  if (built_for != ONEFLOW_PLUGIN_ABI) {
    status = absl::InvalidArgumentError(
        absl::StrCat("was built for headers '", built_for, "', this is '", ONEFLOW_PLUGIN_ABI, "': build it again"));
  } else {
    status = Declare(declare);
  }
  if (!status.ok()) dlclose(library);
  return status;
}

// The hashes of what is loaded, by path. As all tables: one thread at a time.
std::map<std::string, std::string>& Loaded() {
  static auto* const loaded = new std::map<std::string, std::string>();
  return *loaded;
}

// Returns the hash of what is loaded from `path`.
absl::StatusOr<std::string> Load(const std::string& path, const std::optional<std::string>& wanted) {
  OF_ASSIGN_OR_RETURN(const std::string bytes, ReadText("plugin", path));
  const std::string hash = Sha256(bytes);
  const std::string where = absl::StrCat("plugin '", path, "'");
  if (wanted.has_value() && *wanted != hash) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": its SHA-256 here is ", hash, ", but the plan was made with ", *wanted));
  }
  const auto [it, is_new] = Loaded().try_emplace(path, hash);
  if (!is_new) {
    if (it->second == hash) return hash;
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": it has changed: this process has loaded ", it->second, ", the file now is ", hash));
  }
  const absl::Status status = LoadBytes(bytes);
  if (status.ok()) return hash;
  Loaded().erase(it);
  return Annotate(status, where);
}

}  // namespace

absl::StatusOr<std::vector<PluginOfJob>> LoadPlugins(const SourcedConfig& config) {
  std::vector<PluginOfJob> plugins;
  for (int i = 0; i < config.config.plugins_size(); ++i) {
    std::error_code ignored;
    PluginOfJob plugin;
    plugin.path = std::filesystem::absolute(config.config.plugins(i), ignored).lexically_normal().string();
    OF_ASSIGN_OR_RETURN_AT(plugin.sha256, Load(plugin.path, std::nullopt), config.Where("plugins"));
    plugins.push_back(std::move(plugin));
  }
  return plugins;
}

absl::Status LoadPlugins(const google::protobuf::RepeatedPtrField<pb::PluginFile>& plugins) {
  for (const pb::PluginFile& plugin : plugins) OF_RETURN_IF_ERROR(Load(plugin.path(), plugin.sha256()).status());
  return absl::OkStatus();
}

absl::StatusOr<OpRegistry> OpsOf(const SourcedConfig& config) {
  OF_RETURN_IF_ERROR(LoadPlugins(config).status());
  return StandardOps();
}

absl::Status AddPlugin(const std::string& name, const std::function<void(Plugin&)>& declare) {
  return Annotate(Declare(declare), absl::StrCat("plugin '", name, "'"));
}

}  // namespace oneflow
