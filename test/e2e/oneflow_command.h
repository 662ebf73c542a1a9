// The `oneflow` command as its users meet it: a process with arguments, an exit code and two streams of text.
//
//   Workspace work;                                    // a directory with data, jobs and everything the command leaves
//   Outcome ended = work.Run({"run", work.GptJob(), "--metrics", work.Path("m")});
//
// Every workspace is its command's TMPDIR too, so that tests run beside one another and leftovers are seen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "test/support/test_dir.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {

// The program that is tested.
std::string Command();

// How a command ended and what it wrote.
struct Outcome {
  int exit_code = 0;
  int signal = 0;
  std::string out;
  std::string err;
};

// A command that runs. Killed, with all it started, if it lives at the end of the scope.
class RunningCommand {
 public:
  int pid() const { return child_->pid(); }
  void Signal(int signal) const;
  // Its outcome; a failure of the test, and the command's death, if it does not end in time.
  Outcome Wait(absl::Duration limit = absl::Seconds(60));
  // What it has written to standard error up to now.
  std::string Errors() const;

 private:
  friend class Workspace;
  std::string out_, err_;  // files
  ChildExit exit_;
  std::unique_ptr<ChildProcess> child_;  // last: it writes exit_ from its thread
};

class Workspace {
 public:
  Workspace();

  std::string Path(const std::string& name) const { return dir_.File(name); }
  std::string Write(const std::string& name, const std::string& contents) const { return dir_.Write(name, contents); }

  // Job configs of tiny models, with 20 training steps on one device. The paths of the files.
  std::string GptJob() const;      // language model on invented text; AdamW, clipping, warm-up
  std::string ConvNetJob() const;  // convolutional network on invented 28 x 28 images; momentum

  // `oneflow` with these arguments. `passed_fd` becomes its descriptor 3; `within` comes before the command, such as
  // what takes it to another host (hosts.h).
  Outcome Run(const std::vector<std::string>& arguments, const std::vector<std::string>& within = {}) const;
  std::unique_ptr<RunningCommand> Start(const std::vector<std::string>& arguments, int passed_fd = -1,
                                        const std::vector<std::string>& within = {}) const;

  // Starts a server and waits for the line that says that it serves; a failure of the test if it does not come in time.
  std::unique_ptr<RunningCommand> Serve(const std::vector<std::string>& arguments, std::string& line,
                                        const std::vector<std::string>& within = {}) const;

  // Runs a job with --metrics, expects that it succeeds, and returns the lines.
  std::vector<nlohmann::json> Metrics(const std::string& job, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& within = {},
                                      absl::Duration longest = absl::Minutes(1)) const;
  std::vector<double> Losses(const std::string& job, const std::vector<std::string>& arguments,
                             const std::vector<std::string>& within = {}) const;

  // What a page at a URL says; it is left in Path(`name`).
  std::string Fetch(const std::string& url, const std::string& name) const;

  // What commands have left in their TMPDIR.
  std::vector<std::string> Leftovers() const;

 private:
  testing::TestDir dir_;
  mutable int commands_ = 0;
};

// Arguments that run a job on another mesh: "dp: 2 tp: 2".
std::vector<std::string> OnMesh(const std::string& mesh, int processes);
// Arguments that set a field of the config.
std::vector<std::string> Set(const std::string& field, const std::string& value);
std::vector<std::string> Join(std::vector<std::string> a, const std::vector<std::string>& b);

std::string ReadFile(const std::string& path);
// Returns when the file has so many lines; false if they do not come in time.
bool AwaitLines(const std::string& path, int lines, absl::Duration limit = absl::Seconds(60));
// Of a metrics file.
std::vector<nlohmann::json> LinesIn(const std::string& path);
std::vector<double> LossesIn(const std::string& path);

}  // namespace oneflow::e2e
