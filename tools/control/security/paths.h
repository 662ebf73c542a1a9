// Which files of a machine jobs may use: what lies beneath the folders that its daemon allows.
//
//   before a worker starts   every path of its job is resolved, links and ".." included, and refused in one sentence
//   while it runs            the kernel (Landlock) keeps it, and the daemon, to the same folders, whatever links and
//                            folders have become since
//
// Folders of the system, which programs need, may be read in any case. Jobs bring no code but plugins, libraries that
// run with the rights of their workers: a daemon allows these by name, or jobs that have some are refused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/status.h"
#include "proto/control.pb.h"
#include "proto/program.pb.h"

namespace oneflow {

// A file or folder that a job names.
struct JobPath {
  std::string what;  // "checkpoint.path"
  std::string path;
};
// All of them, of one process.
std::vector<JobPath> PathsOf(const pb::JobSpec& spec, const pb::Program& program);

// Closes its descriptor at the end.
class OpenedFile {
 public:
  explicit OpenedFile(int fd) : fd_(fd) {}
  ~OpenedFile();
  OpenedFile(OpenedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenedFile& operator=(OpenedFile&&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

class AllowedPaths {
 public:
  // Everything is allowed.
  AllowedPaths() = default;
  // What lies beneath these folders. NotFound if one is no folder.
  static absl::StatusOr<AllowedPaths> Beneath(const std::vector<std::string>& folders);

  bool everything() const { return everything_; }

  // Of plugins only these files, and those beneath these folders; without this call, all where everything is allowed,
  // else none. NotFound if there is no such file.
  absl::Status AllowPlugins(const std::vector<std::string>& paths);
  // PermissionDenied that names the path, where it leads and what is allowed.
  absl::Status Check(const JobPath& path) const;
  absl::Status Check(const pb::JobSpec& spec, const pb::Program& program) const;
  // Opens a regular file for reading and then looks where it has come to: no link that changes meanwhile leads outside.
  // Errors of Check(); NotFound if there is none; InvalidArgument if it is no regular file.
  absl::StatusOr<OpenedFile> Open(const JobPath& path) const;

  // Whether jobs cannot read `secret`, a file or folder: no link leads them to what lies outside of all that they may
  // read. InvalidArgument naming both if it lies beneath an allowed folder, `work_dir`, this program's folder or one of
  // the system.
  absl::Status CheckSecret(const std::string& secret, const std::string& work_dir) const;

  // From now on this thread, those that it starts and their children open nothing but what lies beneath these folders
  // and `work_dir`, which may be removed too, and for reading beneath the system's; for ever. Their memory cannot be
  // seen by other processes so confined, nor the other way round. Unimplemented if the kernel cannot do that, Internal
  // if it fails to.
  absl::Status ConfineThread(const std::string& work_dir) const;

 private:
  absl::Status CheckPlugin(const std::string& path) const;

  bool everything_ = true;
  bool every_plugin_ = true;
  std::vector<std::string> folders_;  // resolved
  std::vector<std::string> plugins_;  // resolved
};

}  // namespace oneflow
