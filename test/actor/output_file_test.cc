#include "actor/output_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_.File(name); }
  std::string Link(const std::string& name, const std::string& to) const {
    fs::create_symlink(to, Path(name));
    return Path(name);
  }
  // A device that behaves as the null device does, and whose loss nobody minds. False where that needs more rights.
  bool MakeDevice(const std::string& name) const {
    return mknod(Path(name).c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  bool IsA(const std::string& name, mode_t kind) const {
    struct stat info = {};
    return lstat(Path(name).c_str(), &info) == 0 && (info.st_mode & S_IFMT) == kind;
  }
  // How many names there are: nothing is left beside an output.
  int64_t NumNames(const std::string& folder = ".") const {
    return std::distance(fs::directory_iterator(Path(folder)), fs::directory_iterator());
  }

  const TestDir dir_;
};

TEST_F(OutputFileTest, AFileIsReplacedAsAWholeAndKeepsItsPermissions) {
  EXPECT_OK(WriteOutput(Path("a"), "new"));
  EXPECT_EQ(Read("a"), "new");
  chmod(Path("a").c_str(), 0640);
  std::ifstream former(Path("a"));
  EXPECT_OK(WriteOutput(Path("a"), "longer than before"));
  EXPECT_EQ(Read("a"), "longer than before");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(former), {}), "new") << "whoever reads it has what it was";
  struct stat info = {};
  stat(Path("a").c_str(), &info);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_EQ(NumNames(), 1);
}

TEST_F(OutputFileTest, LinksAreFollowedToWhatTheyLeadTo) {
  fs::create_directory(Path("disk"));
  dir_.Write("disk/w", "old");
  const std::string direct = Link("direct", Path("disk/w")), relative = Link("relative", "disk/w"),
                    chain = Link("chain", "relative"), fresh = Link("fresh", "disk/not yet");
  for (const std::string& path : {direct, relative, chain}) {
    EXPECT_OK(WriteOutput(path, path));
    EXPECT_EQ(Read("disk/w"), path);
    EXPECT_EQ(*FileToReplace(path), fs::canonical(Path("disk/w")));
  }
  EXPECT_OK(WriteOutput(fresh, "made"));
  EXPECT_EQ(Read("disk/not yet"), "made");
  for (const char* const link : {"direct", "relative", "chain", "fresh"}) EXPECT_TRUE(IsA(link, S_IFLNK)) << link;
  EXPECT_EQ(NumNames("disk"), 2);
  Link("round", "round");
  EXPECT_THAT(WriteOutput(Path("round"), "x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too many")));
}

TEST_F(OutputFileTest, PipesAndDevicesAreWrittenToAndStay) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  Link("to pipe", "pipe");
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  for (const char* const name : {"pipe", "to pipe"}) {
    EXPECT_OK(WriteOutput(Path(name), "text"));
    char got[8] = {};
    EXPECT_EQ(read(reader, got, sizeof(got)), 4) << name;
    EXPECT_STREQ(got, "text");
    EXPECT_THAT(FileToReplace(Path(name)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is a pipe, and")));
  }
  close(reader);
  EXPECT_TRUE(IsA("pipe", S_IFIFO));
  if (!MakeDevice("null")) GTEST_SKIP() << "devices can be made by root only";
  Link("to null", "null");
  for (const char* const name : {"null", "to null"}) {
    EXPECT_OK(WriteOutput(Path(name), "text"));
    EXPECT_THAT(FileToReplace(Path(name)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is a character device, and")));
  }
  EXPECT_TRUE(IsA("null", S_IFCHR));
}

// As `-o /dev/stdout` of a command whose output a shell put into a file: what came before stays.
TEST_F(OutputFileTest, WhatIsOpenAlreadyIsAddedTo) {
  const std::string path = dir_.Write("log", "before ");
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND);
  const std::string link = Link("stdout", absl::StrCat("/proc/self/fd/", fd));
  EXPECT_OK(WriteOutput(link, "after"));
  EXPECT_EQ(Read("log"), "before after");
  EXPECT_THAT(FileToReplace(link), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another process")));
  close(fd);
}

TEST_F(OutputFileTest, WhatCannotTakeAFileIsRefused) {
  fs::create_directory(Path("folder"));
  Link("to folder", "folder");
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", Path("socket").c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const struct {
    const char *name, *what;
  } cases[] = {
      {"folder", "': it is a directory"}, {"to folder", "': it is a directory"}, {"socket", "': it is a socket"}};
  for (const auto& c : cases) {
    const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(c.name), HasSubstr(c.what)));
    EXPECT_THAT(FindOutput(Path(c.name)).status(), refused);
    EXPECT_THAT(FileToReplace(Path(c.name)).status(), refused);
    EXPECT_THAT(WriteOutput(Path(c.name), "x"), refused);
  }
  EXPECT_THAT(FindOutput(Path("to folder")).status().message(), HasSubstr("which leads to '"));
  EXPECT_THAT(WriteOutput(Path("none/x"), "x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("none/x': cannot write: No such file")));
  close(fd);
}

// Something came to lie there while the file was written.
TEST_F(OutputFileTest, WhatHasBecomeNoFileIsLeft) {
  dir_.Write("w.partial", "weights");
  ASSERT_EQ(mkfifo(Path("w").c_str(), 0600), 0);
  EXPECT_THAT(ReplaceFileBy(Path("w.partial"), Path("w")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it has become a pipe")));
  EXPECT_TRUE(IsA("w", S_IFIFO));
  EXPECT_EQ(Read("w.partial"), "weights");
}

}  // namespace
}  // namespace oneflow
