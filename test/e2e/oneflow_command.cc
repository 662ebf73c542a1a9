#include "test/e2e/oneflow_command.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/ready_pipe.h"

namespace oneflow::e2e {
namespace {

// Text with something to learn: a fixed order of a few words, shuffled by a multiplicative generator.
std::string InventedText() {
  const char* const words[] = {"the ", "river ", "runs ", "to ", "sea, ", "and ", "returns.\n", "morning "};
  std::string text;
  uint32_t state = 1;
  while (text.size() < 20'000) {
    state = state * 1664525 + 1013904223;
    text += words[state >> 29];
  }
  return text;
}

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

constexpr int kImages = 120, kSide = 28, kClasses = 4;

// IDX files: class k has a bright row 3k in noise.
std::string InventedImages() {
  std::string bytes = BigEndian(0x803) + BigEndian(kImages) + BigEndian(kSide) + BigEndian(kSide);
  uint32_t state = 1;
  for (int i = 0; i < kImages * kSide * kSide; ++i) {
    state = state * 1664525 + 1013904223;
    const int image = i / (kSide * kSide), row = i / kSide % kSide;
    bytes += static_cast<char>((state >> 25) + (row == 3 * (image % kClasses) ? 120 : 0));
  }
  return bytes;
}

std::string InventedLabels() {
  std::string bytes = BigEndian(0x801) + BigEndian(kImages);
  for (int i = 0; i < kImages; ++i) bytes += static_cast<char>(i % kClasses);
  return bytes;
}

std::vector<double> LossesOf(const std::vector<nlohmann::json>& lines) {
  std::vector<double> losses;
  for (const nlohmann::json& line : lines) losses.push_back(line.at("loss"));
  return losses;
}

}  // namespace

std::string Command() {
  const char* const named = std::getenv("ONEFLOW_COMMAND");
  return named == nullptr ? BinaryDir() + "/oneflow" : named;
}

std::vector<nlohmann::json> LinesIn(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(ReadFile(path));
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line, nullptr, false));
  return lines;
}

void RunningCommand::Signal(int signal) const { kill(pid(), signal); }

Outcome RunningCommand::Wait(absl::Duration limit) {
  const bool ended = child_->WaitForExit(limit);
  EXPECT_TRUE(ended) << "the command still runs after " << absl::FormatDuration(limit) << "\n" << ReadFile(err_);
  if (!ended) child_->Stop(absl::ZeroDuration());
  child_->WaitForExit(absl::InfiniteDuration());
  return {exit_.exit_code, exit_.signal, ReadFile(out_), ReadFile(err_)};
}

std::string RunningCommand::Errors() const { return ReadFile(err_); }

Workspace::Workspace() {
  Write("text", InventedText());
  Write("images", InventedImages());
  Write("labels", InventedLabels());
  std::filesystem::create_directory(Path("tmp"));
}

std::string Workspace::GptJob() const {
  return Write("gpt.pbtxt", absl::StrCat("model { gpt { layers: 2 width: 16 heads: 2 context: 16 } }\n"
                                         "data { text { path: '",
                                         Path("text"),
                                         "' } }\n"
                                         "train {\n"
                                         "  steps: 20\n"
                                         "  batch_size: 8\n"
                                         "  optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 }\n"
                                         "  schedule { learning_rate: 0.003 kind: 'cosine' warmup_steps: 4 }\n"
                                         "}\n"));
}

std::string Workspace::ConvNetJob() const {
  return Write("convnet.pbtxt", absl::StrCat("model { convnet { channels: [4, 8] hidden: 16 classes: 4 } }\n"
                                             "data { images { train_images: '",
                                             Path("images"), "' train_labels: '", Path("labels"),
                                             "' } }\n"
                                             "train {\n"
                                             "  steps: 20\n"
                                             "  batch_size: 8\n"
                                             "  optimizer { sgd { momentum: 0.9 } }\n"
                                             "  schedule { learning_rate: 0.01 }\n"
                                             "}\n"));
}

std::unique_ptr<RunningCommand> Workspace::Start(const std::vector<std::string>& arguments, int passed_fd,
                                                 const std::vector<std::string>& within) const {
  auto command = std::make_unique<RunningCommand>();
  const int number = ++commands_;
  command->out_ = Path(absl::StrCat("out.", number));
  command->err_ = Path(absl::StrCat("err.", number));
  ChildOptions options;
  options.executable = "/bin/sh";
  const std::vector<std::string> command_line = Join(Join(within, {Command()}), arguments);
  options.arguments = Join({"sh", "-c", R"(exec "$@" >"$E2E_OUT" 2>"$E2E_ERR")", "sh"}, command_line);
  options.environment = {absl::StrCat("E2E_OUT=", command->out_), absl::StrCat("E2E_ERR=", command->err_),
                         absl::StrCat("TMPDIR=", Path("tmp"))};
  options.passed_fd = passed_fd;
  absl::StatusOr<std::unique_ptr<ChildProcess>> child =
      ChildProcess::Start(options, [exit = &command->exit_](ChildExit ended) { *exit = ended; });
  CHECK(child.ok()) << child.status();
  command->child_ = *std::move(child);
  return command;
}

std::unique_ptr<RunningCommand> Workspace::Serve(const std::vector<std::string>& arguments, std::string& line,
                                                 const std::vector<std::string>& within) const {
  constexpr absl::Duration kReady = absl::Seconds(30);
  absl::StatusOr<std::unique_ptr<ReadyPipe>> pipe = ReadyPipe::Make();
  CHECK(pipe.ok()) << pipe.status();
  std::unique_ptr<RunningCommand> server = Start(Join(arguments, {"--ready-fd", "3"}), (*pipe)->write_fd(), within);
  const absl::StatusOr<std::string> ready = (*pipe)->Await(kReady);
  EXPECT_OK(ready) << server->Errors();
  line = ready.value_or("");
  return server;
}

Outcome Workspace::Run(const std::vector<std::string>& arguments, const std::vector<std::string>& within) const {
  return Start(arguments, /*passed_fd=*/-1, within)->Wait();
}

std::vector<nlohmann::json> Workspace::Metrics(const std::string& job, const std::vector<std::string>& arguments,
                                               const std::vector<std::string>& within, absl::Duration longest) const {
  const std::string path = Path(absl::StrCat("metrics.", commands_ + 1));
  const Outcome ended =
      Start(Join({"run", job, "--metrics", path}, arguments), /*passed_fd=*/-1, within)->Wait(longest);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  return LinesIn(path);
}

std::vector<double> Workspace::Losses(const std::string& job, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& within) const {
  return LossesOf(Metrics(job, arguments, within));
}

std::string Workspace::Fetch(const std::string& url, const std::string& name) const {
  ChildOptions options;
  options.executable = "/usr/bin/python3";
  options.arguments = {"python3", "-c",
                       "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')", url};
  options.log_path = Path(name);
  std::filesystem::remove(options.log_path);
  const auto child = ChildProcess::Start(options);
  EXPECT_TRUE(child.ok() && (*child)->WaitForExit(absl::Seconds(30)));
  return ReadFile(options.log_path);
}

std::vector<std::string> Workspace::Leftovers() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Path("tmp"))) names.push_back(entry.path().filename());
  return names;
}

std::vector<std::string> OnMesh(const std::string& mesh, int processes) {
  return {"--set", absl::StrCat("mesh={", mesh, "}"), "--set", absl::StrCat("cluster.processes=", processes)};
}

std::vector<std::string> Set(const std::string& field, const std::string& value) {
  return {"--set", absl::StrCat(field, "=", value)};
}

std::vector<std::string> Join(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool AwaitLines(const std::string& path, int lines, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (absl::Now() < deadline) {
    const std::string text = ReadFile(path);
    if (std::count(text.begin(), text.end(), '\n') >= lines) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

std::vector<double> LossesIn(const std::string& path) { return LossesOf(LinesIn(path)); }

}  // namespace oneflow::e2e
