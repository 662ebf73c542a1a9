#include "tools/control/process/memory_space.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// What a child says, which `prepare` may put elsewhere.
template <typename Prepare>
std::string OfChild(Prepare prepare) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    const std::string space = MemorySpace();
    _exit(write(ends[1], space.data(), space.size()) == static_cast<ssize_t>(space.size()) ? 0 : 1);
  }
  close(ends[1]);
  char said[256] = {};
  EXPECT_GE(read(ends[0], said, sizeof(said) - 1), 0);
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return said;
}

TEST(MemorySpaceTest, IsThatOfAllProcessesWhichSeeOneAnother) {
  EXPECT_THAT(MemorySpace(), HasSubstr("pid:["));
  EXPECT_EQ(OfChild([] {}), MemorySpace());
}

TEST(MemorySpaceTest, AnOwnOneIsNobodyElses) {
  EXPECT_NE(OwnMemorySpace(), MemorySpace());
  EXPECT_NE(OwnMemorySpace(), OwnMemorySpace());
}

TEST(MemorySpaceTest, IsNotThatOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  EXPECT_NE(OfChild([] { (void)!seteuid(65534); }), MemorySpace());
}

}  // namespace
}  // namespace oneflow
