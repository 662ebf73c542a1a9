// Certificates as `oneflow certs` makes them, and what is said of those that are not what they should be.
#include "tools/control/security/certificates.h"

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/security/private_file.h"

namespace oneflow {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class CertificatesTest : public ::testing::Test {
 protected:
  void Make(const std::string& folder) {
    ASSERT_OK(MakeCertificates(dir_.File(folder), {.hosts = {"n1", "10.0.0.7"}, .days = 30}));
  }
  mode_t ModeOf(const std::string& file) const {
    struct stat info = {};
    EXPECT_EQ(stat(dir_.File(file).c_str(), &info), 0) << file;
    return info.st_mode & 0777;
  }
  void Copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy_file(dir_.File(from), dir_.File(to), std::filesystem::copy_options::overwrite_existing);
  }

  const TestDir dir_;
  const absl::Time now_ = absl::Now();
};

TEST_F(CertificatesTest, KeysAreTheirOwnersAlone) {
  Make("f");
  for (const char* key : {"f/ca/key.pem", "f/cluster/key.pem", "f/user/key.pem"}) EXPECT_EQ(ModeOf(key), 0600) << key;
  EXPECT_EQ(ModeOf("f/cluster/ca.pem"), 0644);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("f/user"))) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("ca.pem", "cert.pem", "key.pem")) << "the CA's key is not handed out";
  std::filesystem::permissions(dir_.File("f/user/key.pem"), std::filesystem::perms(0640));
  EXPECT_THAT(LoadIdentity(dir_.File("f/user"), now_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("user/key.pem' has mode 0640, so that others can use it: 'chmod 600' it")));
}

TEST_F(CertificatesTest, TheClustersHasTheNamesOfItsMachines) {
  Make("f");
  ASSERT_OK_AND_ASSIGN(const std::string pem, ReadPublicFile(dir_.File("f/cluster/cert.pem")));
  ASSERT_OK_AND_ASSIGN(const CertificateFacts facts, ReadCertificate(pem));
  for (const char* name : {"oneflow:cluster", "n1", "10.0.0.7", "localhost", "127.0.0.1", "::1"}) {
    EXPECT_THAT(facts.names, Contains(name));
  }
  EXPECT_LT(absl::AbsDuration(facts.ends - (now_ + absl::Hours(24 * 30))), absl::Minutes(5));
  EXPECT_FALSE(facts.is_authority);
  ASSERT_OK_AND_ASSIGN(const std::string text, DescribeCertificates(dir_.File("f")));
  EXPECT_THAT(text, AllOf(HasSubstr("user/cert.pem\n  CN=oneflow user, until 20"), HasSubstr("\n  oneflow:user\n")));
}

TEST_F(CertificatesTest, NothingIsOverwrittenAndACaIsKept) {
  Make("f");
  const std::string user = dir_.File("f/user");
  ASSERT_OK_AND_ASSIGN(const std::string before, ReadPrivateFile(user + "/key.pem"));
  EXPECT_THAT(MakeCertificates(dir_.File("f"), {}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("/f/cluster' is there: move it away")));
  ASSERT_OK_AND_ASSIGN(const std::string after, ReadPrivateFile(user + "/key.pem"));
  EXPECT_EQ(before, after);
  std::filesystem::rename(dir_.File("f/cluster"), dir_.File("old"));
  std::filesystem::remove_all(user);
  Make("f");
  ASSERT_OK_AND_ASSIGN(const TlsIdentity made, LoadIdentity(user, Holder::kUser, now_));
  ASSERT_OK_AND_ASSIGN(const TlsIdentity old, LoadIdentity(dir_.File("old"), Holder::kCluster, now_));
  EXPECT_EQ(made.authority, old.authority);
  EXPECT_NE(made.key, before);
}

TEST_F(CertificatesTest, WhatIsNotAsItShouldBeIsSaidInOneSentence) {
  Make("f");
  Make("g");
  EXPECT_OK(LoadIdentity(dir_.File("f/cluster"), Holder::kCluster, now_));
  EXPECT_OK(LoadIdentity(dir_.File("f/user"), now_));
  EXPECT_THAT(LoadIdentity(dir_.File("f/user"), Holder::kCluster, now_).status(),
              StatusIs(kInvalid, absl::StrCat("certificate '", dir_.File("f/user/cert.pem"),
                                              "': it is for oneflow:user; this takes one for oneflow:cluster")));
  EXPECT_THAT(LoadIdentity(dir_.File("f/user"), now_ + absl::Hours(24 * 31)).status(),
              StatusIs(kInvalid, AllOf(HasSubstr("/f/user/cert.pem': it ended at 20"),
                                       HasSubstr(" UTC: 'oneflow certs init' makes another"))));
  EXPECT_THAT(LoadIdentity(dir_.File("f/user"), now_ + absl::Hours(24 * 3651)).status(),
              StatusIs(kInvalid, HasSubstr("ended at 20")));
  EXPECT_THAT(LoadIdentity(dir_.File("none"), now_).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--tls: '")));
  Copy("g/user/ca.pem", "f/user/ca.pem");
  EXPECT_THAT(LoadIdentity(dir_.File("f/user"), now_).status(),
              StatusIs(kInvalid, HasSubstr("': the CA in ca.pem has not signed it: ")));
  Copy("g/user/key.pem", "f/cluster/key.pem");
  EXPECT_THAT(LoadIdentity(dir_.File("f/cluster"), now_).status(),
              StatusIs(kInvalid, HasSubstr("': key.pem is the key of another")));
  dir_.Write("f/cluster/cert.pem", "nonsense");
  EXPECT_THAT(LoadIdentity(dir_.File("f/cluster"), now_).status(), StatusIs(kInvalid, HasSubstr("is no PEM")));
}

TEST_F(CertificatesTest, WhatIsNoHostsNameIsRefused) {
  for (const char* host : {"", "a b", "a,URI:oneflow:cluster", "a\nb", "1:2"}) {
    EXPECT_THAT(MakeCertificates(dir_.File("f"), {.hosts = {host}}),
                StatusIs(kInvalid, HasSubstr("is neither a host's name nor an address")));
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.File("f"))) << "it is refused before anything is made";
}

TEST_F(CertificatesTest, AFileIsReplacedAsAWhole) {
  const std::string path = dir_.Write("f", "before");
  ASSERT_OK(ReplaceFile(path, "after", 0600));
  EXPECT_EQ(ModeOf("f"), 0600);
  ASSERT_OK_AND_ASSIGN(const std::string now, ReadPrivateFile(path));
  EXPECT_EQ(now, "after");
  EXPECT_THAT(ReplaceFile(dir_.File("none/f"), "x", 0600), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none/f")));
}

}  // namespace
}  // namespace oneflow
