#include "actor/checkpoint/folder_owner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

std::string Folder(const TestDir& dir) { return std::filesystem::path(dir.File("x")).parent_path().string(); }

TEST(FolderOwnerTest, AFolderHasOneOwnerAtATime) {
  const TestDir dir;
  {
    ASSERT_OK_AND_ASSIGN(const auto first, FolderOwner::Take(Folder(dir), {.job = "a job\nof two lines", .run = 1}));
    EXPECT_THAT(first->remark(), IsEmpty());
    EXPECT_OK(first->Check());
    for (const uint64_t run : {uint64_t{0}, uint64_t{2}}) {
      EXPECT_THAT(FolderOwner::Take(Folder(dir), {.job = "b", .run = run, .attempt = 9}).status(),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("belongs to job 'a job\nof two lines'"), HasSubstr("which runs"))));
    }
    EXPECT_OK(first->Check());
  }
  EXPECT_TRUE(std::filesystem::is_empty(Folder(dir))) << "who gives it back leaves nothing";
  ASSERT_OK_AND_ASSIGN(const auto next, FolderOwner::Take(Folder(dir), {.job = "b"}));
  EXPECT_THAT(next->remark(), IsEmpty());
}

TEST(FolderOwnerTest, TheDeadOwnNothing) {
  const TestDir dir;
  const pid_t child = fork();
  if (child == 0) {
    const auto owner = FolderOwner::Take(Folder(dir), {.job = "dead"});
    _exit(owner.ok() ? 0 : 1);  // without giving it back
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_OK_AND_ASSIGN(const auto heir, FolderOwner::Take(Folder(dir), {.job = "heir"}));
  EXPECT_THAT(heir->remark(), AllOf(HasSubstr("is taken over from job 'dead'"), HasSubstr("which is dead")));
}

// A host that is cut off may still run an attempt that the scheduler has given up.
TEST(FolderOwnerTest, ALaterAttemptTakesOverAndTheEarlierOneFindsOut) {
  const TestDir dir;
  const auto take = [&dir](uint64_t attempt) {
    return FolderOwner::Take(Folder(dir), {.job = "j", .run = 7, .attempt = attempt}, absl::ZeroDuration());
  };
  ASSERT_OK_AND_ASSIGN(auto first, take(1));
  ASSERT_OK_AND_ASSIGN(const auto second, take(2));
  EXPECT_THAT(second->remark(), HasSubstr("is taken over from attempt 1 of this job"));
  EXPECT_THAT(first->Check(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       AllOf(HasSubstr("is no longer this job's"), HasSubstr("job 'j'"))));
  EXPECT_THAT(take(1).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to job 'j'")));
  first.reset();
  std::filesystem::remove(dir.File(".owner"));
  EXPECT_OK(second->Check()) << "somebody cleared the folder";
  EXPECT_THAT(take(2).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to job 'j'")));
  EXPECT_OK(second->Check()) << "an owner that was replaced takes nothing away";
}

TEST(FolderOwnerTest, ALockedFileThatSaysNothingIsNotTakenOver) {
  const TestDir dir;
  ASSERT_OK_AND_ASSIGN(const auto owner, FolderOwner::Take(Folder(dir), {.job = "j", .run = 7, .attempt = 1}));
  std::filesystem::resize_file(dir.File(".owner"), 0);
  EXPECT_THAT(FolderOwner::Take(Folder(dir), {.job = "j", .run = 7, .attempt = 2}, absl::ZeroDuration()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("does not say who it is")));
  EXPECT_THAT(FolderOwner::Take("/no/such/folder", {.job = "j"}).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/no/such/folder/.owner")));
}

}  // namespace
}  // namespace oneflow
