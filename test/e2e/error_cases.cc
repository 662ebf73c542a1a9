#include "test/e2e/error_cases.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

std::string InWorkspace(const Workspace& work, const std::string& text) {
  return absl::StrReplaceAll(text, {{"DIR/", work.Path("")}});
}

}  // namespace

void ExpectErrors(const Workspace& work, const std::vector<ErrorCase>& cases, int exit_code) {
  std::vector<std::unique_ptr<RunningCommand>> commands;
  for (const ErrorCase& c : cases) {
    std::vector<std::string> arguments;
    for (const std::string& argument : c.arguments) arguments.push_back(InWorkspace(work, argument));
    commands.push_back(work.Start(arguments));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(cases[i].arguments));
    const Outcome ended = commands[i]->Wait();
    EXPECT_EQ(ended.exit_code, exit_code);
    EXPECT_EQ(ended.signal, 0);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, StartsWith("oneflow"));
    EXPECT_THAT(ended.err, HasSubstr(InWorkspace(work, cases[i].message)));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
  EXPECT_THAT(work.Leftovers(), IsEmpty());
}

}  // namespace oneflow::e2e
