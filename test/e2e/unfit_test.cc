// Configs that do not fit: the host's memory, what numbers may be, the data, the devices. Each ends with one line that
// says what is too large and what the limit is; test/golden/errors/unfit.txt has them all. A new limit is a new row.
#include <algorithm>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/golden.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

// What is set in the job of a small gpt on one device.
const std::vector<std::string> kUnfit[] = {
    // Memory, far beyond that of any host.
    {"model.gpt.width=262144"},
    {"train.batch_size=262144", "model.gpt.context=4096"},
    {"data={clicks {vocabulary: 2147483647}}", "model={wide_deep {embedding: 262144}}"},
    {"cluster.variable_bytes_per_device=100000"},
    {"cluster.variable_bytes_per_device=50000", "mesh={tp: 2}"},
    // What numbers may be.
    {"mesh={dp: 5000}"},
    {"mesh={dp: 4096 tp: 4096}"},
    {"train.steps=1099511627777"},
    {"train.batch_size=1048577"},
    {"train.micro_batches=1048577"},
    {"model.gpt.layers=10001"},
    {"model.gpt.width=262146"},
    {"model.gpt.vocabulary=262145"},
    // The data.
    {"model.gpt.vocabulary=20"},
    {"model.gpt.context=20000"},
    {"data={clicks {fields: 9 vocabulary: 8}}", "model={wide_deep {}}"},
    // The devices.
    {"mesh={dp: 8}", "cluster.processes=16"},
    {"mesh={dp: 3}", "cluster.processes=2"},
    {"mesh={dp: 4}", "cluster.processes=2", "cluster.devices_per_process=3"},
    {"evaluate={mesh {tp: 8}}", "cluster={hosts {devices: 4}}"},
    {"evaluate={mesh {tp: 2} ranks {hosts: 2}}", "cluster={hosts {count: 2 devices: 4}}"},
    {"mesh={dp: 2}", "evaluate={mesh {dp: 3}}", "cluster.processes=2"},
    {"cluster.processes=1025"},
    {"cluster.cores_per_process=4097"},
};

// Without what differs from run to run and from host to host, and how many bytes the compiler needs.
std::string Settled(const Workspace& work, const std::string& error) {
  std::string text = absl::StrReplaceAll(error, {{work.Path(""), "DIR/"}});
  text = std::regex_replace(text, std::regex("pid [0-9]+"), "pid N");
  text = std::regex_replace(text, std::regex("memory of [0-9]+ bytes"), "memory of N bytes");
  return std::regex_replace(text, std::regex("the host has [0-9]+ left"), "the host has N left");
}

TEST(UnfitTest, ConfigsThatDoNotFitGetOneClearError) {
  const Workspace work;
  std::string errors;
  for (const std::vector<std::string>& settings : kUnfit) {
    std::vector<std::string> arguments = {"run", work.GptJob()};
    for (const std::string& setting : settings) {
      arguments.push_back("--set");
      arguments.push_back(setting);
    }
    const Outcome ended = work.Run(arguments);
    const std::string row = absl::StrJoin(settings, ", ");
    EXPECT_EQ(ended.exit_code, 1) << row;
    EXPECT_EQ(ended.out, "") << row;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << row << "\n" << ended.err;
    absl::StrAppend(&errors, row, "\n  ", Settled(work, ended.err));
  }
  EXPECT_THAT(work.Leftovers(), IsEmpty());
  EXPECT_GOLDEN("errors/unfit.txt", errors);
}

}  // namespace
}  // namespace oneflow::e2e
