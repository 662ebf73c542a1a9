// Linked into a program of tests, lets every test fail in which a software device found a defect.
#include <gtest/gtest.h>

#include "test/support/cuda/software_device.h"

namespace oneflow::software_cuda {
namespace {

class FailOnDefects : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& defect : TakeDefects()) ADD_FAILURE() << defect;
  }
};

const bool appended = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new FailOnDefects);  // which owns it
  return true;
}();

}  // namespace
}  // namespace oneflow::software_cuda
