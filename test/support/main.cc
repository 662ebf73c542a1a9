// Runs the tests of a room; logs go to stderr.
#include "glog/logging.h"
#include "gmock/gmock.h"

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
