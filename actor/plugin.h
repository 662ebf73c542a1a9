// What a library of one's own adds to the engine. It says so in one function:
//
//   void Declare(oneflow::Plugin& plugin) {
//     plugin.Add(oneflow::OpDef{.name = "swish", .rule = "...->...", .infer = ..., .grad = ...});
//     plugin.AddCpu({"swish", oneflow::DType::kFloat32, Swish});
//   }
//   ONEFLOW_PLUGIN(Declare)
//
// A job names the library in its field `plugins`. Rows are the same as those of the engine's own tables, and everything
// follows from them in the same way: checks of configs, layouts, gradients, memory, prices.
//
// The library knows the installed headers alone, and links oneflow::oneflow_core (cmake: oneflow_add_plugin(NAME
// SOURCES...)). Headers of another version are refused when it is loaded. tools/examples/plugin/ is a whole one.
#pragma once

#include "actor/data/source.h"
#include "actor/host_function.h"
#include "kernels/kernel.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/op.h"
#include "oneflow_core/optimizer_rules.h"
#include "oneflow_core/plugin_abi.h"

namespace oneflow {

// Rows are looked at when the function has returned: if one is wrong, or has a name that exists, the library is
// refused as a whole, by an error that names it, the row and what is wrong.
class Plugin {
 public:
  virtual ~Plugin() = default;
  // Of kind kCompute with a kernel for each device that is to run it, or of kind kCall with a host function. It has a
  // `rule` and an `infer`. A kCall without a rule is called on one rank, with whole tensors.
  virtual void Add(OpDef op) = 0;
  virtual void Add(HostFunctionKind function) = 0;
  // `op` of the kernel must stay valid.
  virtual void AddCpu(Kernel kernel) = 0;
  virtual void AddCuda(Kernel kernel) = 0;
  // data { custom { name: ... } }. `source` reads what `kind` describes.
  virtual void Add(DataKind kind, SourceKind source) = 0;
  // optimizer { custom { name: ... } }. Made of ops by `build`, or with an op "<name>_update" for which the library has
  // kernels.
  virtual void Add(OptimizerRule rule) = 0;
  // model { custom { name: ... } }.
  virtual void Add(ModelDef model) = 0;
};

}  // namespace oneflow

// Makes the two functions by which the library is known.
#define ONEFLOW_PLUGIN(declare)                                                                    \
  extern "C" __attribute__((visibility("default"))) const char* oneflow_plugin_abi();              \
  extern "C" __attribute__((visibility("default"))) void oneflow_plugin_declare(oneflow::Plugin&); \
  const char* oneflow_plugin_abi() { return ONEFLOW_PLUGIN_ABI; }                                  \
  void oneflow_plugin_declare(oneflow::Plugin& plugin) { declare(plugin); }
