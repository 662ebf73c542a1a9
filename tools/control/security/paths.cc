#include "tools/control/security/paths.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/data/data_kind.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

// Where links and ".." lead; what is not there yet lies in what is.
absl::StatusOr<std::string> Resolve(const std::string& path) {
  std::error_code error;
  std::filesystem::path resolved = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  if (error) return absl::PermissionDeniedError(absl::StrCat("'", path, "' cannot be resolved: ", error.message()));
  if (!resolved.has_filename()) resolved = resolved.parent_path();  // "a/" is "a"
  return resolved.string();
}

bool IsBeneath(const std::string& path, const std::string& folder) {
  return path == folder || folder == "/" || absl::StartsWith(path, absl::StrCat(folder, "/"));
}

bool IsBeneathOne(const std::string& path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return IsBeneath(path, folder); });
}

absl::StatusOr<std::vector<std::string>> ResolveAll(const std::vector<std::string>& folders) {
  std::vector<std::string> resolved;
  for (const std::string& folder : folders) {
    OF_ASSIGN_OR_RETURN(resolved.emplace_back(), Resolve(folder));
    if (std::filesystem::is_directory(resolved.back())) continue;
    return absl::NotFoundError(absl::StrCat("'", folder, "' is no folder"));
  }
  return resolved;
}

// Whether some kind of data reads the file that its attribute `name` names. Of any kind: that of a program from outside
// may be said twice.
bool NamesData(const std::string& name) {
  return std::any_of(DataKinds().begin(), DataKinds().end(),
                     [&](const DataKind& kind) { return std::count(kind.paths.begin(), kind.paths.end(), name) > 0; });
}

void AddDataPaths(const pb::Instruction& read, std::vector<JobPath>& paths) {
  for (const pb::Attribute& attribute : read.attributes()) {
    if (!NamesData(attribute.name())) continue;
    paths.push_back({absl::StrCat("data '", attribute.name(), "' of node '", read.node(), "'"), attribute.s()});
  }
}

// --- the kernel ---

// Of what a file system can be asked for, all that the kernel's version knows, apart from running programs: what may
// be read may be run.
constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                            LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                            LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                            LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr uint64_t kRefer = uint64_t{1} << 13;     // from version 2 on
constexpr uint64_t kTruncate = uint64_t{1} << 14;  // from version 3 on
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

// What programs and the libraries that they load read: of /etc what they look names, times and settings up in.
constexpr const char* kSystem[] = {"/usr",
                                   "/lib",
                                   "/lib32",
                                   "/lib64",
                                   "/bin",
                                   "/sbin",
                                   "/opt",
                                   "/proc",
                                   "/sys",
                                   "/run/systemd/resolve",
                                   "/etc/ld.so.cache",
                                   "/etc/ld.so.preload",
                                   "/etc/resolv.conf",
                                   "/etc/hosts",
                                   "/etc/host.conf",
                                   "/etc/nsswitch.conf",
                                   "/etc/gai.conf",
                                   "/etc/services",
                                   "/etc/protocols",
                                   "/etc/passwd",
                                   "/etc/group",
                                   "/etc/localtime",
                                   "/etc/ssl/openssl.cnf",
                                   "/etc/ucx",
                                   "/etc/nccl.conf",
                                   "/etc/OpenCL",
                                   "/etc/alternatives"};
// What is written besides: shared memory, and what drivers of cards have. No disks, which a link could lead to.
constexpr const char* kDevices[] = {"/dev/shm",     "/dev/null", "/dev/zero",   "/dev/random",
                                    "/dev/urandom", "/dev/dri",  "/dev/gdrdrv", "/dev/infiniband"};
constexpr char kNvidia[] = "nvidia";  // "/dev/nvidia0", "/dev/nvidiactl", ...

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

absl::Status KernelError(absl::string_view doing) {
  return absl::InternalError(absl::StrCat("cannot ", doing, ": ", std::strerror(errno)));
}

class Ruleset {
 public:
  explicit Ruleset(uint64_t handled) : handled_(handled) {
    landlock_ruleset_attr attributes = {};
    attributes.handled_access_fs = handled;
    fd_ = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0));
  }
  Ruleset(const Ruleset&) = delete;
  ~Ruleset() {
    if (fd_ >= 0) close(fd_);
  }

  // OK if there is no such path: it may come, and is not allowed then.
  absl::Status Allow(const std::string& path, uint64_t access) {
    if (fd_ < 0) return KernelError("confine this process");
    const int there = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (there < 0) return absl::OkStatus();
    struct stat info = {};
    fstat(there, &info);
    landlock_path_beneath_attr rule = {};
    rule.parent_fd = there;
    rule.allowed_access = access & handled_ & (S_ISDIR(info.st_mode) ? ~uint64_t{0} : kOfFiles);
    const bool added = syscall(SYS_landlock_add_rule, fd_, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    const absl::Status status = added ? absl::OkStatus() : KernelError(absl::StrCat("allow '", path, "'"));
    close(there);
    return status;
  }
  absl::Status Enforce() {
    const bool enforced =
        fd_ >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, fd_, 0) == 0;
    return enforced ? absl::OkStatus() : KernelError("confine this process");
  }

 private:
  const uint64_t handled_;
  int fd_;
};

}  // namespace

std::vector<JobPath> PathsOf(const pb::JobSpec& spec, const pb::Program& program) {
  std::vector<JobPath> paths;
  ForEachPath(spec, [&](const PathField& field) { paths.push_back({field.what, field.path}); });
  for (const pb::Plan& plan : program.plans()) {
    for (const pb::Actor& actor : plan.actors()) {
      for (const pb::Instruction& instruction : actor.instructions()) {
        if (instruction.kind() == pb::Instruction::READ) AddDataPaths(instruction, paths);
      }
    }
  }
  std::erase_if(paths, [](const JobPath& path) { return path.path.empty(); });
  return paths;
}

absl::StatusOr<AllowedPaths> AllowedPaths::Beneath(const std::vector<std::string>& folders) {
  AllowedPaths allowed;
  allowed.everything_ = allowed.every_plugin_ = false;
  OF_ASSIGN_OR_RETURN(allowed.folders_, ResolveAll(folders));
  return allowed;
}

absl::Status AllowedPaths::AllowPlugins(const std::vector<std::string>& paths) {
  every_plugin_ = false;
  for (const std::string& path : paths) {
    OF_ASSIGN_OR_RETURN(plugins_.emplace_back(), Resolve(path));
    if (!std::filesystem::exists(plugins_.back())) {
      return absl::NotFoundError(absl::StrCat("there is no '", path, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status AllowedPaths::CheckPlugin(const std::string& path) const {
  if (every_plugin_) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN_AT(const std::string resolved, Resolve(path), "plugins");
  if (IsBeneathOne(resolved, plugins_)) return absl::OkStatus();
  const std::string leads = resolved == path ? "" : absl::StrCat(", which leads to '", resolved, "',");
  return absl::PermissionDeniedError(
      absl::StrCat("plugins: '", path, "'", leads, " is not for jobs; this daemon allows ",
                   plugins_.empty() ? "none (start it with --allow-plugin FILE)"
                                    : absl::StrCat("'", absl::StrJoin(plugins_, "', '"), "'")));
}

absl::Status AllowedPaths::Check(const JobPath& path) const {
  if (everything_) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN_AT(const std::string resolved, Resolve(path.path), path.what);
  if (IsBeneathOne(resolved, folders_)) return absl::OkStatus();
  const std::string leads = resolved == path.path ? "" : absl::StrCat(", which leads to '", resolved, "',");
  const std::string allowed = folders_.empty()
                                  ? "nothing (start it with --allow-path FOLDER)"
                                  : absl::StrCat("what is beneath '", absl::StrJoin(folders_, "', '"), "'");
  return absl::PermissionDeniedError(
      absl::StrCat(path.what, ": '", path.path, "'", leads, " is not for jobs; this daemon allows ", allowed));
}

absl::Status AllowedPaths::Check(const pb::JobSpec& spec, const pb::Program& program) const {
  for (const pb::PluginFile& plugin : program.plugins()) OF_RETURN_IF_ERROR(CheckPlugin(plugin.path()));
  if (everything_) return absl::OkStatus();
  for (const JobPath& path : PathsOf(spec, program)) OF_RETURN_IF_ERROR(Check(path));
  return absl::OkStatus();
}

OpenedFile::~OpenedFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<OpenedFile> AllowedPaths::Open(const JobPath& path) const {
  OF_RETURN_IF_ERROR(Check(path));
  // Not blocking: a fifo has nobody at its other end.
  OpenedFile file(open(path.path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.fd() < 0) {
    return absl::NotFoundError(absl::StrCat(path.what, " '", path.path, "': ", std::strerror(errno)));
  }
  std::error_code error;
  const std::string leads = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", file.fd()), error);
  if (error) return absl::PermissionDeniedError(absl::StrCat(path.what, " '", path.path, "': ", error.message()));
  if (!everything_ && !IsBeneathOne(leads, folders_)) {
    return absl::PermissionDeniedError(
        absl::StrCat(path.what, ": '", path.path, "' has come to lead to '", leads, "', which is not for jobs"));
  }
  struct stat info = {};
  if (fstat(file.fd(), &info) == 0 && S_ISREG(info.st_mode)) return file;
  return absl::InvalidArgumentError(absl::StrCat(path.what, " '", path.path, "': is no regular file"));
}

absl::Status AllowedPaths::CheckSecret(const std::string& secret, const std::string& work_dir) const {
  if (everything_) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN(const std::string resolved, Resolve(secret));
  OF_ASSIGN_OR_RETURN(const std::string work, Resolve(work_dir));
  std::vector<std::string> readable = folders_;
  readable.insert(readable.end(), {work, ProgramFolder()});
  readable.insert(readable.end(), std::begin(kSystem), std::end(kSystem));
  for (const std::string& folder : readable) {
    if (!IsBeneath(resolved, folder)) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", secret, "' lies beneath '", folder,
                                                   "', which jobs may read: a job could be led to it by a link"));
  }
  return absl::OkStatus();
}

absl::Status AllowedPaths::ConfineThread(const std::string& work_dir) const {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return absl::UnimplementedError("this kernel has no Landlock");
  const uint64_t write = kWrite | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0);
  Ruleset rules(kRead | write);
  std::error_code ignored;
  OF_RETURN_IF_ERROR(rules.Allow(ProgramFolder(), kRead));
  for (const char* path : kSystem) OF_RETURN_IF_ERROR(rules.Allow(path, kRead));
  for (const char* path : kDevices) OF_RETURN_IF_ERROR(rules.Allow(path, kRead | write));
  for (const auto& device : std::filesystem::directory_iterator("/dev", ignored)) {
    if (!absl::StartsWith(device.path().filename().string(), kNvidia)) continue;
    OF_RETURN_IF_ERROR(rules.Allow(device.path(), kRead | write));
  }
  for (const std::string& path : folders_) OF_RETURN_IF_ERROR(rules.Allow(path, kRead | write));
  for (const std::string& path : plugins_) OF_RETURN_IF_ERROR(rules.Allow(path, kRead));
  OF_RETURN_IF_ERROR(rules.Allow(work_dir, kRead | write));
  const std::string above = std::filesystem::absolute(work_dir, ignored).parent_path();
  OF_RETURN_IF_ERROR(rules.Allow(above, LANDLOCK_ACCESS_FS_REMOVE_DIR));  // of folders that are empty
  return rules.Enforce();
}

}  // namespace oneflow
