// Jobs whose products and convolutions of f32 may be rounded to TF32.
#include <cmath>

#include "gmock/gmock.h"
#include "test/laws/layouts_law.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class Tf32Test : public testing::LayoutsLaw {
 protected:
  std::vector<double> Losses(const std::string& config, const std::vector<std::string>& overrides) {
    steps_ = 3;
    const absl::StatusOr<Outcome> outcome = Run(config, overrides);
    EXPECT_OK(outcome.status());
    return outcome.ok() ? outcome->losses : std::vector<double>();
  }
};

TEST_F(Tf32Test, CudaDevicesMultiplyWithFewerBitsIfAJobLetsThem) {
  for (const std::string& config : {Mlp(), ConvNet(), Gpt()}) {
    const std::vector<double> exact = Losses(config, {"cluster.device=cuda"});
    const std::vector<double> rounded = Losses(config, {"cluster.device=cuda", "precision.tf32=true"});
    ASSERT_EQ(exact.size(), 3);
    ASSERT_EQ(rounded.size(), 3);
    EXPECT_NE(exact, rounded);
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_LE(std::abs(rounded[i] / exact[i] - 1), 5e-3) << "step " << i + 1;
    EXPECT_EQ(rounded, Losses(config, {"cluster.device=cuda", "precision.tf32=true"})) << "the same bits in every run";
  }
}

TEST_F(Tf32Test, ProductsOf16BitsAreAsBefore) {
  const std::vector<std::string> bf16 = {"cluster.device=cuda", "precision.compute=BF16", "unfused=true"};
  std::vector<std::string> with = bf16;
  with.push_back("precision.tf32=true");
  EXPECT_EQ(Losses(Mlp(), bf16), Losses(Mlp(), with));
}

TEST_F(Tf32Test, OnTheHostNothingChanges) { EXPECT_EQ(Losses(Mlp(), {}), Losses(Mlp(), {"precision.tf32=true"})); }

}  // namespace
}  // namespace oneflow
