// Products take the algorithms that a file names; one that is filled names the fastest; one that is not good for
// anything is refused with a line that says why.
#include "kernels/cuda/product_algorithms.h"

#include <cudnn.h>

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "kernels/cuda/conv2d.h"
#include "kernels/cuda/gemm.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"
#include "test/support/test_dir.h"

namespace oneflow::cuda {
namespace {

constexpr uint64_t kSeed = 1707;
constexpr size_t kHeader = 2;  // lines
// Microseconds, of products that others are measured beside: longer than a busy machine holds a thread up.
constexpr int kSlow = 20'000, kSlower = 40'000;

std::string Contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class ProductAlgorithmsTest : public ::testing::Test {
 protected:
  ~ProductAlgorithmsTest() override { software_cuda::SetTimesOfProducts({}); }

  // Some that differ, each in one respect at least.
  static std::vector<Product2d> Products() {
    std::mt19937 random(kSeed);
    std::vector<Product2d> products;
    for (int i = 0; i < 12; ++i) {
      Product2d p{.transpose_a = random() % 2 == 0,
                  .transpose_b = random() % 2 == 0,
                  .m = 1 + static_cast<int64_t>(random() % 9),
                  .n = 1 + static_cast<int64_t>(random() % 9),
                  .k = 1 + static_cast<int64_t>(random() % 9),
                  .alignment = 4};
      if (random() % 2 == 0) p.in = DType::kBFloat16;
      if (random() % 3 == 0) p.out = p.in;
      p.accumulate = random() % 3 == 0;
      if (random() % 3 == 0) {
        p.batch = 3;
        p.a_stride = p.m * p.k;
        p.c_stride = p.m * p.n;
      }
      products.push_back(p);
    }
    return products;
  }

  // Which algorithm a product runs by.
  static int AlgorithmOf(const Product2d& p, ProductAlgorithms& algorithms) {
    const std::unique_ptr<Gemm> gemm = Gemm::Make(p, algorithms);
    EXPECT_NE(gemm, nullptr);
    void* memory[4] = {};
    const size_t bytes = 3 * 9 * 9 * 4;
    for (void*& x : memory) {
      char* data = nullptr;
      EXPECT_EQ(cudaMalloc(&data, &x == &memory[3] ? kGemmWorkspaceBytes : bytes), cudaSuccess);
      EXPECT_EQ(cudaMemsetAsync(data, 0, bytes, nullptr), cudaSuccess);
      x = data;
    }
    const auto before = software_cuda::ProductsByAlgorithm();
    EXPECT_EQ(gemm->Run(nullptr, memory[0], memory[1], memory[2], memory[3]), nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (void* const x : memory) cudaFree(x);
    for (int i = 0; i < software_cuda::kProductAlgorithms; ++i) {
      if (software_cuda::ProductsByAlgorithm()[i] > before[i]) return i;
    }
    return -1;
  }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines = absl::StrSplit(Contents(file_), '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }
  void Write(const std::vector<std::string>& lines) {
    dir_.Write("products", lines.empty() ? "" : absl::StrJoin(lines, "\n") + "\n");
  }

  TestDir dir_;
  const std::string file_ = dir_.File("products");
  const std::string here_ = ProductAlgorithms::Where();
};

TEST_F(ProductAlgorithmsTest, WithoutAFileTheLibrarysFirstChoiceIsTaken) {
  software_cuda::SetTimesOfProducts({2000, 0, 0});
  ProductAlgorithms none;
  for (const Product2d& p : Products()) EXPECT_EQ(AlgorithmOf(p, none), 0) << p.ToString();
}

TEST_F(ProductAlgorithmsTest, TheFastestIsMeasuredOnceAndKept) {
  software_cuda::SetTimesOfProducts({kSlower, kSlow, 0});
  {
    ProductAlgorithms measured(file_, here_, /*measure=*/true);
    EXPECT_EQ(AlgorithmOf(Products()[0], measured), 2);
    EXPECT_EQ(AlgorithmOf(Products()[0], measured), 2);
    EXPECT_THAT(Lines(), SizeIs(kHeader + 1)) << "a product is measured once";
  }
  software_cuda::SetTimesOfProducts({kSlower, 0, kSlow});
  {
    ProductAlgorithms more(file_, here_, /*measure=*/true);
    EXPECT_EQ(AlgorithmOf(Products()[0], more), 2) << "what is in the file stays";
    EXPECT_EQ(AlgorithmOf(Products()[1], more), 1);
  }
  ProductAlgorithms read(file_, here_, /*measure=*/false);
  EXPECT_EQ(read.error(), "");
  EXPECT_EQ(AlgorithmOf(Products()[0], read), 2);
  EXPECT_EQ(AlgorithmOf(Products()[1], read), 1);
  EXPECT_EQ(AlgorithmOf(Products()[2], read), 0) << "what is not in it is not measured";
  EXPECT_THAT(Lines(), SizeIs(kHeader + 2));
}

TEST_F(ProductAlgorithmsTest, ProductsThatDifferInAnythingHaveRowsOfTheirOwn) {
  Product2d p{.m = 4, .n = 5, .k = 6, .batch = 2, .a_stride = 24, .b_stride = 30, .c_stride = 20};
  std::vector<Product2d> products(12, p);
  products[1].transpose_a = products[2].transpose_b = products[3].accumulate = true;
  products[4].m = products[5].n = products[6].k = 7;
  products[7].in = DType::kBFloat16;
  products[8].out = DType::kBFloat16;
  products[9].a_stride = products[10].b_stride = 0;
  products[11].alignment = 4;
  std::map<std::string, int> seen;
  for (const Product2d& one : products) ++seen[one.ToString()];
  EXPECT_EQ(seen.size(), products.size());
}

TEST_F(ProductAlgorithmsTest, OfSeveralRowsForAProductTheFirstHolds) {
  software_cuda::SetTimesOfProducts({kSlow, 0, kSlow});
  {
    ProductAlgorithms first(file_, here_, true), second(dir_.File("other"), here_, true);
    AlgorithmOf(Products()[0], first);
    software_cuda::SetTimesOfProducts({kSlow, kSlow, 0});
    AlgorithmOf(Products()[0], second);
  }
  std::vector<std::string> lines = Lines();
  lines.push_back(std::vector<std::string>(absl::StrSplit(Contents(dir_.File("other")), '\n'))[kHeader]);
  Write(lines);
  ProductAlgorithms both(file_, here_, false);
  EXPECT_EQ(AlgorithmOf(Products()[0], both), 1);
}

TEST_F(ProductAlgorithmsTest, WhatIsForeignOrDamagedIsNotUsedAndSaysWhy) {
  {
    ProductAlgorithms measured(file_, here_, true);
    for (const Product2d& p : Products()) Gemm::Make(p, measured);
  }
  const std::vector<std::string> good = Lines();
  ASSERT_GT(good.size(), kHeader + 2);
  const auto expect = [&](const std::vector<std::string>& lines, const std::string& says) {
    Write(lines);
    for (const bool measure : {false, true}) {
      ProductAlgorithms read(file_, here_, measure);
      EXPECT_THAT(read.error(), HasSubstr(says));
      EXPECT_FALSE(read.measures()) << "nothing is added to it";
      for (const Product2d& p : Products()) EXPECT_FALSE(read.Find(p.ToString()).has_value());
    }
    EXPECT_EQ(Lines(), lines);
  };
  std::vector<std::string> lines = good;
  lines[0] = "oneflow products 2";
  expect(lines, "line 1 is not 'oneflow products 1'");
  lines = good;
  lines[1] = "gpu other, cublaslt 1, driver 2";
  expect(lines, "it is for 'gpu other, cublaslt 1, driver 2', but here is '" + here_ + "'");
  std::mt19937 random(kSeed);
  for (int i = 0; i < 200; ++i) {  // any character of any row
    lines = good;
    const size_t line = kHeader + random() % (good.size() - kHeader);
    std::string& row = lines[line];
    const size_t at = random() % row.size();
    row[at] = row[at] == 'x' ? 'y' : 'x';
    SCOPED_TRACE(row);
    expect(lines, "line " + std::to_string(line + 1) + " is damaged");
  }
  lines = good;
  lines.back().resize(lines.back().size() - 3);
  expect(lines, "is damaged");
  Write(good);
  const std::string text = Contents(file_);
  dir_.Write("products", text.substr(0, text.size() - 1));  // the end of the last line
  EXPECT_THAT(ProductAlgorithms(file_, here_, false).error(), HasSubstr("is damaged"));
  EXPECT_EQ(ProductAlgorithms(dir_.File("none"), here_, false).error(), "No such file or directory");
}

// A convolution's row has cuDNN's two numbers of the algorithm, and the version of the library in its name.
TEST_F(ProductAlgorithmsTest, ConvolutionsTakeTheFastestThatGivesTheSameBits) {
  std::vector<std::vector<int64_t>> dims = {{2, 3, 6, 6}, {4, 3, 3, 3}, {2, 4, 6, 6}};
  std::vector<std::vector<int64_t>> strides, starts(3, std::vector<int64_t>(4, 0));
  std::vector<TensorArg> args;
  for (const std::vector<int64_t>& of : dims) strides.push_back({of[1] * of[2] * of[3], of[2] * of[3], of[3], 1});
  for (size_t i = 0; i < dims.size(); ++i) {
    args.push_back(
        {nullptr, DType::kFloat32, 4, dims[i][0] * strides[i][0], dims[i].data(), dims[i].data(), starts[i].data()});
  }
  AttrMap attrs;
  attrs.Set("padding", int64_t{1});
  const KernelArgs call = {.in = std::span(args).first(2), .out = std::span(args).last(1), .attrs = &attrs};
  const auto algorithm = [&](ProductAlgorithms& algorithms) {
    return Conv2dAlgorithm(PrepareConv2d(call, algorithms).get());
  };
  ProductAlgorithms none;
  EXPECT_EQ(algorithm(none), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) << "the library's first choice";
  // The fastest of all is not as precise, the next one sums in any order.
  std::array<int, software_cuda::kConvolutionAlgorithms> times;
  times.fill(1000);
  times[CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED] = times[CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING] = 0;
  times[CUDNN_CONVOLUTION_FWD_ALGO_GEMM] = 100;
  software_cuda::SetTimesOfConvolutions(times);
  {
    ProductAlgorithms measured(file_, here_, /*measure=*/true);
    EXPECT_EQ(algorithm(measured), CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
  }
  EXPECT_THAT(Lines(), SizeIs(kHeader + 1));
  EXPECT_THAT(Lines()[kHeader], HasSubstr("cudnn 91900 conv2d f32 fma 2x3x6x6 4x3x3x3 2x4x6x6 stride 1 padding 1 = "));
  software_cuda::SetTimesOfConvolutions({});
  ProductAlgorithms read(file_, here_, /*measure=*/false);
  EXPECT_EQ(algorithm(read), CUDNN_CONVOLUTION_FWD_ALGO_GEMM) << "in every later run";
  dims[0][0] = dims[2][0] = 1;
  EXPECT_EQ(algorithm(read), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) << "what is not in it";
}

// As where the library was changed without its version.
TEST_F(ProductAlgorithmsTest, AnAlgorithmThatTheLibraryDoesNotTakeIsItsFirstChoiceAgain) {
  ProductAlgorithms measured(file_, here_, true);
  cublasLtMatmulAlgo_t wrong = {};
  wrong.data[0] = 5;
  measured.Add(Products()[0].ToString(), wrong);
  EXPECT_EQ(AlgorithmOf(Products()[0], measured), 0);
  EXPECT_THAT(Lines(), SizeIs(kHeader + 1)) << "nor is it measured";
}

}  // namespace
}  // namespace oneflow::cuda
