// Kernels that take several calls at once give what each call gives by itself, to the bit.
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "test/kernels/devices.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kDataSeed = 1861;

// Device memory with numbers in it.
class Memory {
 public:
  Memory(DeviceContext& device, std::vector<float> numbers) : device_(device), numbers_(std::move(numbers)) {
    data_ = device.Allocate(Bytes());
    Reset();
  }
  void Reset() { EXPECT_EQ(device_.CopyFromHost(data_, numbers_.data(), Bytes()), nullptr); }
  std::string Contents() const {
    std::string bytes(Bytes(), '\0');
    EXPECT_EQ(device_.CopyToHost(bytes.data(), data_, bytes.size()), nullptr);
    return bytes;
  }
  void* data() const { return data_; }

 private:
  size_t Bytes() const { return numbers_.size() * sizeof(float); }
  DeviceContext& device_;
  const std::vector<float> numbers_;
  void* data_;
};

class ManyCallsTest : public OnDeviceTest {
 protected:
  TensorArg F32(const std::vector<int64_t>& dims, void* data) {
    dims_.push_back(std::make_unique<std::vector<int64_t>>(dims));
    const std::vector<int64_t>& kept = *dims_.back();
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    return {data, DType::kFloat32, static_cast<int>(kept.size()), count, kept.data(), kept.data(), kept.data()};
  }
  void* Numbers(int64_t count, float low, float high) {
    std::vector<float> numbers(static_cast<size_t>(count));
    for (float& x : numbers) x = std::uniform_real_distribution<float>(low, high)(random_);
    memory_.emplace_back(*device_, std::move(numbers));
    return memory_.back().data();
  }
  void* Step(int64_t step) {
    std::vector<float> bytes(2);
    std::memcpy(bytes.data(), &step, sizeof step);
    memory_.emplace_back(*device_, std::move(bytes));
    return memory_.back().data();
  }
  int64_t Uniform(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  // Operands of an update of `count` numbers, with scalars that others may have too.
  std::vector<TensorArg> Update(int64_t count, const std::vector<TensorArg>& scalars) {
    std::vector<TensorArg> in = {F32({count}, Numbers(count, -1, 1)), F32({count}, Numbers(count, -1, 1)),
                                 F32({count}, Numbers(count, 0, 1)), F32({count}, Numbers(count, -1, 1))};
    in.insert(in.end(), scalars.begin(), scalars.end());
    return in;
  }
  std::vector<TensorArg> Scalars(float scale) {
    memory_.emplace_back(*device_, std::vector<float>{scale});
    void* const scales = memory_.back().data();
    TensorArg step = F32({}, Step(Uniform(0, 1000)));
    step.dtype = DType::kInt64;
    return {F32({}, Numbers(1, 0.001f, 0.1f)), F32({}, scales), step};
  }
  std::vector<std::string> Contents() const {
    std::vector<std::string> all;
    for (const Memory& memory : memory_) all.push_back(memory.Contents());
    return all;
  }

  std::mt19937_64 random_{kDataSeed};
  std::vector<std::unique_ptr<std::vector<int64_t>>> dims_;
  std::vector<Memory> memory_;
};

TEST_P(ManyCallsTest, UpdatesAtOnceAreThoseOneByOne) {
  const Kernel& kernel = *device_->kernels().Find("adamw_update", DType::kFloat32);
  if (kernel.run_many == nullptr) GTEST_SKIP() << "none at once";
  const AttrMap attrs[] = {{{"weight_decay", 0.1}}, {{"beta1", 0.8}, {"epsilon", 1e-6}}};
  for (const int64_t num_calls : {1, 2, 7, 80, 81, 200}) {
    SCOPED_TRACE(::testing::Message() << num_calls << " calls, seed " << kDataSeed);
    memory_.clear();
    const std::vector<TensorArg> scalars[] = {Scalars(0.5f), Scalars(2)};
    std::vector<std::vector<TensorArg>> operands;
    std::vector<KernelArgs> calls;
    for (int64_t i = 0; i < num_calls; ++i) {
      const int64_t sizes[] = {0, 1, 3, 4, 4095, 4096, 4097, Uniform(1, 20000)};
      operands.push_back(Update(sizes[Uniform(0, 7)], scalars[Uniform(0, 4) == 0]));
      calls.push_back({.attrs = &attrs[Uniform(0, 3) == 0], .stream = device_->stream()});
    }
    for (size_t i = 0; i < calls.size(); ++i) calls[i].in = operands[i];
    for (const KernelArgs& call : calls) ASSERT_EQ(kernel.run(call), nullptr);
    const std::vector<std::string> one_by_one = Contents();
    for (Memory& memory : memory_) memory.Reset();
    EXPECT_NE(Contents(), one_by_one);
    ASSERT_EQ(kernel.run_many(calls), nullptr);
    EXPECT_EQ(Contents(), one_by_one);
  }
}

TEST_P(ManyCallsTest, UpdatesThatAreSkippedChangeNothing) {
  const Kernel& kernel = *device_->kernels().Find("adamw_update", DType::kFloat32);
  if (kernel.run_many == nullptr) GTEST_SKIP() << "none at once";
  const AttrMap attrs;
  const std::vector<TensorArg> scalars = Scalars(NAN);
  const std::vector<TensorArg> a = Update(5, scalars), b = Update(5000, scalars);
  const std::vector<std::string> before = Contents();
  const std::vector<KernelArgs> calls = {{.in = a, .attrs = &attrs, .stream = device_->stream()},
                                         {.in = b, .attrs = &attrs, .stream = device_->stream()}};
  ASSERT_EQ(kernel.run_many(calls), nullptr);
  EXPECT_EQ(Contents(), before);
}

INSTANTIATE_TEST_SUITE_P(Devices, ManyCallsTest,
                         ::testing::Values(DeviceUnderTest{"cpu", OneCore}, DeviceUnderTest{"cuda", FirstGpu}), NameOf);

}  // namespace
}  // namespace oneflow::testing
