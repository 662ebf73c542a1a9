#include "tools/job/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "actor/output_file.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

bool Writes(pb::FieldRule::Path use) {
  return use == pb::FieldRule::WRITES_FILE || use == pb::FieldRule::WRITES_FOLDER;
}

// Where it leads, as far as it is there.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  fs::path resolved = fs::weakly_canonical(absolute, error);
  if (error) return absolute.lexically_normal();
  return resolved.has_filename() ? resolved : resolved.parent_path();  // "a/" is "a"
}

// A link that leads to nothing yet is not followed by weakly_canonical().
fs::path WhereWritten(const std::string& path) {
  const absl::StatusOr<OutputPlace> place = FindOutput(std::string(absl::StripSuffix(path, "/")));
  return Resolved(place.ok() ? place->path : path);
}

bool IsStream(const std::string& path) {
  const absl::StatusOr<OutputPlace> place = FindOutput(path);
  return place.ok() && place->is_stream;
}

bool AreOne(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return a == b || (fs::equivalent(a, b, error) && !error);
}

}  // namespace

std::vector<NamedPath> OutputsOf(const SourcedConfig& config) {
  std::vector<NamedPath> outputs;
  ForEachPath(config.config, [&](const PathField& field) {
    if (Writes(field.use)) outputs.push_back({field.what, field.path});
  });
  return outputs;
}

std::vector<NamedPath> InputsOf(const SourcedConfig& config) {
  std::vector<NamedPath> inputs;
  if (!config.file.empty()) inputs.push_back({"the job config", config.file});
  ForEachPath(config.config, [&](const PathField& field) {
    if (!Writes(field.use)) inputs.push_back({field.what, field.path});
  });
  return inputs;
}

absl::Status CheckApart(absl::Span<const NamedPath> outputs, absl::Span<const NamedPath> inputs) {
  std::vector<fs::path> written;
  for (const NamedPath& output : outputs) {
    written.push_back(WhereWritten(output.path));
    if (IsStream(output.path)) continue;
    const auto error = [&](const NamedPath& other, absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(output.what, " '", output.path, "' and ", other.what, " '",
                                                     other.path, "' are one file: ", why));
    };
    for (size_t i = 0; i + 1 < written.size(); ++i) {
      if (AreOne(written.back(), written[i])) return error(outputs[i], "one would replace the other");
    }
    for (const NamedPath& input : inputs) {
      if (!input.path.empty() && AreOne(written.back(), Resolved(input.path)))
        return error(input, "what is read would be replaced");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path, bool may_be_stream) {
  const auto error = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write '", path, "': ", what));
  };
  const absl::StatusOr<OutputPlace> place = FindOutput(path);
  if (!place.ok()) return error(absl::StripPrefix(place.status().message(), absl::StrCat("'", path, "': ")));
  if (place->is_stream) {
    if (may_be_stream) return absl::OkStatus();
    const absl::Status file = FileToReplace(path).status();
    return error(absl::StripPrefix(file.message(), absl::StrCat("'", path, "': ")));
  }
  std::string folder = fs::path(place->path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return error(absl::StrCat("there is no folder '", folder, "'"));
  if (access(folder.c_str(), W_OK) != 0) return error(absl::StrCat("folder '", folder, "': ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace oneflow
