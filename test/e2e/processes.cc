#include "test/e2e/processes.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
extern "C" {  // glibc 2.36 declares it for C only
#include <sys/pidfd.h>
}

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace oneflow::e2e {

void Process::Kill(int signal) const { pidfd_send_signal(pidfd, signal, nullptr, 0); }

bool Process::GoneWithin(absl::Duration timeout) const {
  pollfd polled{pidfd, POLLIN, 0};
  return poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
}

void Process::Close() {
  if (pidfd >= 0) close(pidfd);
  pidfd = -1;
}

int64_t Process::ResidentBytes() const {
  std::ifstream statm(absl::StrCat("/proc/", pid, "/statm"));
  int64_t all_pages = 0, resident_pages = 0;
  statm >> all_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::vector<Process> DescendantsOf(int root) {
  std::map<int, Process> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    Process process;
    process.pid = std::atoi(entry.path().filename().c_str());
    std::stringstream stat, command;
    stat << std::ifstream(entry.path() / "stat").rdbuf();
    command << std::ifstream(entry.path() / "cmdline").rdbuf();
    process.command = command.str();
    std::replace(process.command.begin(), process.command.end(), '\0', ' ');
    const size_t name_end = stat.str().rfind(')');
    if (process.pid == 0 || name_end == std::string::npos) continue;
    process.parent = std::atoi(stat.str().c_str() + name_end + 4);  // ") S 123 ..."
    all[process.pid] = process;
  }
  std::vector<Process> found;
  for (auto& [pid, process] : all) {
    int ancestor = process.parent;
    while (ancestor != root && all.contains(ancestor)) ancestor = all[ancestor].parent;
    if (ancestor != root) continue;
    process.pidfd = pidfd_open(pid, 0);
    found.push_back(process);
  }
  return found;
}

std::set<std::string> NamedSharedMemory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && absl::StrContains(name, "oneflow")) names.insert(name);
  }
  return names;
}

}  // namespace oneflow::e2e
