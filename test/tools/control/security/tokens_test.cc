// Tokens as `oneflow token` makes them and a scheduler reads them.
#include "tools/control/security/tokens.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/security/private_file.h"

namespace oneflow {
namespace {

constexpr auto kUnknown = absl::StatusCode::kUnauthenticated;

class TokensTest : public ::testing::Test {
 protected:
  std::string Add(const std::string& name, UserRole role) const {
    const absl::StatusOr<std::string> token = AddToken(file_, name, role);
    EXPECT_OK(token);
    return token.value_or("");
  }

  const TestDir dir_;
  const std::string file_ = dir_.File("tokens");
};

TEST_F(TokensTest, AFileKnowsNamesAndRolesAndNoToken) {
  const std::string alice = Add("alice", UserRole::kSubmit), bob = Add("bob", UserRole::kAdmin);
  EXPECT_THAT(alice, SizeIs(64));
  EXPECT_NE(alice, bob);
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadPrivateFile(file_));
  EXPECT_THAT(text, AllOf(HasSubstr("\nalice submit "), Not(HasSubstr(alice)), Not(HasSubstr(bob))));
  TokenFile tokens(file_);
  ASSERT_OK_AND_ASSIGN(const TokenEntry found, tokens.Find(bob));
  EXPECT_EQ(found.name, "bob");
  EXPECT_EQ(found.role, UserRole::kAdmin);
  for (const std::string& wrong : {std::string(), alice.substr(1), alice + "0", found.hash}) {
    EXPECT_THAT(tokens.Find(wrong).status(), StatusIs(kUnknown, "the caller's token is not known here"));
  }
}

TEST_F(TokensTest, WhatIsAddedOrRemovedCountsFromTheNextCall) {
  const std::string alice = Add("alice", UserRole::kRead);
  TokenFile tokens(file_);
  EXPECT_OK(tokens.Find(alice));
  const std::string bob = Add("bob", UserRole::kRead);
  EXPECT_OK(tokens.Find(bob));
  ASSERT_OK(RemoveToken(file_, "alice"));
  EXPECT_THAT(tokens.Find(alice).status(), StatusIs(kUnknown, HasSubstr("not known")));
  EXPECT_OK(tokens.Find(bob));
}

TEST_F(TokensTest, AFileThatIsGoneOrBrokenLetsNobodyIn) {
  const std::string alice = Add("alice", UserRole::kAdmin);
  TokenFile tokens(file_);
  EXPECT_OK(tokens.Find(alice));
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  EXPECT_THAT(tokens.Find(alice).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("mode 0644")));
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  EXPECT_OK(tokens.Find(alice));
  dir_.Write("tokens", "alice king 0\n");
  EXPECT_THAT(tokens.Find(alice).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/tokens': line 1: it is not a name")));
  std::filesystem::remove(file_);
  EXPECT_THAT(tokens.Find(alice).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/tokens'")));
}

TEST_F(TokensTest, MistakesAreSaid) {
  Add("alice", UserRole::kRead);
  EXPECT_THAT(AddToken(file_, "alice", UserRole::kAdmin).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("has a token of 'alice': remove it first")));
  EXPECT_THAT(RemoveToken(file_, "bob"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no token of 'bob'")));
  for (const char* name : {"", "a b", "a\nb admin 0"}) {
    EXPECT_THAT(AddToken(file_, name, UserRole::kRead).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no name: it may have up to 64")));
  }
  EXPECT_THAT(ParseUserRole("king").status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                       "'king' is no role; there are 'read', 'submit' and 'admin'"));
}

TEST_F(TokensTest, AUsersTokenIsSaidOrKeptInAFile) {
  const std::string token = Add("alice", UserRole::kRead);
  unsetenv("ONEFLOW_TOKEN");
  setenv("XDG_CONFIG_HOME", dir_.File("config").c_str(), 1);
  EXPECT_THAT(OwnToken(), testing::IsOk());
  EXPECT_EQ(*OwnToken(), "");
  std::filesystem::create_directories(dir_.File("config/oneflow"));
  ASSERT_OK(ReplaceFile(dir_.File("config/oneflow/token"), token + "\n", 0600));
  EXPECT_EQ(*OwnToken(), token);
  setenv("ONEFLOW_TOKEN", "abc", 1);
  EXPECT_THAT(OwnToken().status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ONEFLOW_TOKEN: it has 3 characters; a token")));
  unsetenv("ONEFLOW_TOKEN");
  ASSERT_EQ(chmod(dir_.File("config/oneflow/token").c_str(), 0640), 0);
  EXPECT_THAT(OwnToken().status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("mode 0640")));
  unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace oneflow
