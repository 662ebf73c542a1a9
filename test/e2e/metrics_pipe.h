// The metrics of a running job as they are written: `--metrics` names a pipe, whose other end the test reads.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "glog/logging.h"
#include "nlohmann/json.hpp"

namespace oneflow::e2e {

class MetricsPipe {
 public:
  // Makes the pipe at `path`. To be called before the command starts.
  explicit MetricsPipe(const std::string& path) {
    PCHECK(mkfifo(path.c_str(), 0600) == 0) << path;
    fd_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // does not wait for a writer
    PCHECK(fd_ >= 0) << path;
    keep_open_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);  // so that there is no end of file before the writer comes
    PCHECK(keep_open_ >= 0) << path;
  }
  ~MetricsPipe() {
    close(fd_);
    close(keep_open_);
  }
  MetricsPipe(const MetricsPipe&) = delete;
  MetricsPipe& operator=(const MetricsPipe&) = delete;

  // Returns when `steps` steps have been written since the beginning; false if they do not come in time.
  bool AwaitSteps(int steps, absl::Duration limit = absl::Seconds(60)) {
    const absl::Time deadline = absl::Now() + limit;
    while (steps_ < steps) {
      pollfd polled{fd_, POLLIN, 0};
      const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
      if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) return false;
      char text[4096];
      const ssize_t got = read(fd_, text, sizeof(text));
      if (got <= 0) return false;
      text_.append(text, got);
      steps_ += static_cast<int>(std::count(text, text + got, '\n'));
    }
    return true;
  }
  int num_steps() const { return steps_; }
  // Of the steps that have been read.
  std::vector<double> losses() const {
    std::vector<double> losses;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) losses.push_back(nlohmann::json::parse(line).at("loss"));
    return losses;
  }

 private:
  int fd_ = -1;
  int keep_open_ = -1;
  int steps_ = 0;
  std::string text_;
};

}  // namespace oneflow::e2e
