// What stands in for CUDA is for tests alone: no library of the engine, nor its command, has anything of it.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

// Lines of `nm` about the symbols of a file that match an extended regular expression.
std::string SymbolsOf(const std::string& path, const std::string& pattern) {
  const std::string command = "nm -C '" + path + "' 2>&1 | grep -E '" + pattern + "|No such file'";
  const std::unique_ptr<FILE, int (*)(FILE*)> lines(popen(command.c_str(), "r"), pclose);
  std::string text;
  char line[512];
  while (lines != nullptr && std::fgets(line, sizeof(line), lines.get()) != nullptr && text.size() < 4000) text += line;
  return text;
}

// Those that speak of the stand-ins: by their namespace, by the hooks that kernels are compiled with for them, by the
// fibres that they run on.
std::string StandInSymbolsOf(const std::string& path) { return SymbolsOf(path, "software_cuda|__tsan_|fcontext"); }

TEST(StandInsTest, TheEngineHasNothingOfThem) {
  for (const char* library :
       {"liboneflow_core.a", "liboneflow_sbp.a", "liboneflow_compiler.a", "liboneflow_kernels.a",
        "liboneflow_kernels_cuda.a", "liboneflow_actor.a", "liboneflow_actor_nccl.a", "liboneflow_job.a",
        "liboneflow_control.a", "liboneflow_servers.a", "liboneflow_study.a", "liboneflow_bench.a", "liboneflow_page.a",
        "liboneflow_cli.a", "liboneflow_proto.a", "oneflow"}) {
    SCOPED_TRACE(library);
    EXPECT_THAT(StandInSymbolsOf(BinaryDir() + "/" + library), IsEmpty());
  }
}

// Else the test above could not fail.
TEST(StandInsTest, WhatStandsInHas) {
  const std::string symbols = StandInSymbolsOf(BinaryDir() + "/test/oneflow_on_software_cuda");
  EXPECT_THAT(symbols, ContainsRegex("software_cuda"));
  EXPECT_THAT(symbols, Not(ContainsRegex("No such file")));
}

// Where the toolkit is, its libraries are on the same commands of the linker.
TEST(StandInsTest, ProgramsOnSoftwareDevicesTakeNothingFromTheToolkit) {
  for (const char* program :
       {"oneflow_on_software_cuda", "kernels_software_cuda_test", "cuda_jobs_software_cuda_test"}) {
    SCOPED_TRACE(program);
    EXPECT_THAT(SymbolsOf(BinaryDir() + "/test/" + program, " U (cuda|cublas|cudnn|nccl)"), IsEmpty());
  }
}

}  // namespace
}  // namespace oneflow
