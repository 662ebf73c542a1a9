// Plugins: libraries with rows for the engine's tables (actor/plugin.h), loaded into a process for as long as it lives.
//
//   job's field plugins ──► who compiles: loads them, and the plan has their paths and hashes
//                           every worker: loads the same bytes, or refuses
//
// A library is read once, its bytes are hashed, and these very bytes are loaded, whatever happens to the file
// meanwhile. So a library that needs others finds them by the system's search path, not beside itself.
//
// Loading runs the library's code with the rights of the process. Only who asked for it may be made to: the user's own
// commands, and daemons that allow it (--allow-plugin). Not while other threads use the tables.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "google/protobuf/repeated_field.h"
#include "oneflow_core/op.h"
#include "proto/program.pb.h"
#include "tools/job/config.h"

namespace oneflow {

class Plugin;  // actor/plugin.h

// Loads what `config.plugins` names, as far as it is not loaded; returns what plans say of it. Errors, which name the
// field: NotFound if there is no such file; InvalidArgument if it is no such library, was built for other headers, or
// adds a row that is wrong (then it has added nothing); FailedPrecondition if other bytes were loaded from that path.
absl::StatusOr<std::vector<PluginOfJob>> LoadPlugins(const SourcedConfig& config);

// The same for a program's plugins. FailedPrecondition, with both hashes, if a file is not what the plan was made with.
absl::Status LoadPlugins(const google::protobuf::RepeatedPtrField<pb::PluginFile>& plugins);

// The standard ops and those of the config's plugins, which it loads.
absl::StatusOr<OpRegistry> OpsOf(const SourcedConfig& config);

// Adds the rows of a program that embeds the engine, as a plugin `name` would. InvalidArgument if one is wrong.
absl::Status AddPlugin(const std::string& name, const std::function<void(Plugin&)>& declare);

}  // namespace oneflow
