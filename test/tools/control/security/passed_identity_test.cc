#include "tools/control/security/passed_identity.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(PassedIdentityTest, IsTakenOnceAsItWasPassed) {
  const TlsIdentity identity{.authority = std::string("ca\0\n", 4), .certificate = "", .key = std::string(70'000, 'k')};
  ASSERT_OK_AND_ASSIGN(const PassedIdentity passed, PassedIdentity::Make(identity));
  const int inherited = dup(passed.fd());
  ASSERT_OK_AND_ASSIGN(const TlsIdentity taken, TakeIdentity(inherited));
  EXPECT_EQ(taken.authority, identity.authority);
  EXPECT_EQ(taken.certificate, identity.certificate);
  EXPECT_EQ(taken.key, identity.key);
  EXPECT_EQ(fcntl(inherited, F_GETFD), -1) << "a worker does not keep it";
  ASSERT_OK_AND_ASSIGN(const TlsIdentity none, TakeIdentity(-1));
  EXPECT_TRUE(none.empty());
}

TEST(PassedIdentityTest, WhatIsNoneIsAnError) {
  for (const size_t size : {size_t{3}, size_t{10}, size_t{2'000'000}}) {
    const int fd = memfd_create("x", 0);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(size)), 0);
    const std::string length(size == 10 ? 8 : 0, '\xff');
    ASSERT_EQ(pwrite(fd, length.data(), length.size(), 0), static_cast<ssize_t>(length.size()));
    EXPECT_THAT(TakeIdentity(fd).status(),
                StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("holds no identity")))
        << size;
  }
}

}  // namespace
}  // namespace oneflow
