// `oneflow manifest`: what it prints is what Kubernetes' published schemas allow.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow::e2e {
namespace {

class ManifestTest : public ::testing::Test {
 protected:
  std::string Manifest(const std::vector<std::string>& arguments) const {
    const Outcome ended = work_.Run(Join({"manifest", "--image", "registry.example/oneflow:1"}, arguments));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return ended.out;
  }
  // Python's words about the manifest: each object's kind and name, or what the strict schemas refuse.
  std::string Checked(const std::string& manifest) const {
    const std::string out = work_.Path("checked");
    const std::string command =
        absl::StrCat("/usr/bin/python3 ", SourceDir(), "/test/e2e/check_manifest.py ", SourceDir(), "/build/python ",
                     work_.Write("manifest.yaml", manifest), " >", out, " 2>&1");
    return std::system(command.c_str()) == 77 << 8 ? "" : ReadFile(out);
  }

  const Workspace work_;
};

TEST_F(ManifestTest, ObjectsAreWhatTheSchemasAllow) {
  const std::string standing = Checked(Manifest({"--gpus", "8", "--cpus", "32", "--memory", "200Gi", "--claim",
                                                 "shared", "--tls-secret", "certificates", "--namespace", "training"}));
  if (standing.empty()) GTEST_SKIP() << "Kubernetes' schemas are not installed in build/python";
  EXPECT_EQ(standing,
            "Service oneflow-scheduler\nPersistentVolumeClaim oneflow-scheduler\nDeployment oneflow-scheduler\n"
            "DaemonSet oneflow-daemon\n");
  EXPECT_EQ(Checked(Manifest({work_.GptJob(), "--tasks", "4", "--name", "gpt", "--insecure"})),
            "ConfigMap gpt\nService gpt\nJob gpt\n");
  EXPECT_THAT(Checked("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\nspec:\n  tasks: 4\n"),
              HasSubstr("Job a: "))
      << "the schemas refuse what they do not know";
}

TEST_F(ManifestTest, PodsOfAJobKnowOneAnotherAndItsConfig) {
  const std::string job = work_.GptJob();
  const std::string manifest = Manifest({job, "--name", "gpt", "--insecure"});
  EXPECT_THAT(manifest, HasSubstr("value: \"gpt-0.gpt\""));
  EXPECT_THAT(manifest, HasSubstr("completions: 1\n"));
  EXPECT_THAT(manifest, HasSubstr("job.pbtxt: |\n"));
}

TEST_F(ManifestTest, WhatMakesNoSenseIsRefused) {
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const Outcome ended = work_.Run(Join({"manifest", "--image", "i"}, arguments));
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.out, IsEmpty());
    return ended.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("name a --tls-secret, or say --insecure"));
  EXPECT_THAT(refused({"--insecure", "--name", "My Job"}), HasSubstr("--name is 'My Job'"));
  EXPECT_THAT(refused({"--insecure", "--memory", "lots"}), HasSubstr("--memory is 'lots'"));
  EXPECT_THAT(refused({"--insecure", "--tasks", "-1"}), HasSubstr("--tasks is -1"));
  EXPECT_THAT(refused({"--insecure", work_.Path("none.pbtxt")}), MatchesRegex("oneflow: .*none.pbtxt.*\n"));
}

}  // namespace
}  // namespace oneflow::e2e
