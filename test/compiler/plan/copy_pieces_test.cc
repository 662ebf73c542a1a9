#include "compiler/plan/copy_pieces.h"

#include <random>

#include "gmock/gmock.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

CopyProgram CopiesOf(const Shape& shape, const std::string& from, const std::string& to, int destination) {
  const Topology topology = OneHost(8, 8);
  return CopiesFor(*BoxingReads::Create({DType::kFloat32, shape}, Dist(from), Dist(to), topology).value(), destination);
}

TEST(CopyPiecesTest, AColumnOfASplitMatrixIsAStridedCopy) {
  // Rank 0 gets rows 0-1, columns 3-5 from rank 1, which holds [4,3].
  const CopyProgram program = CopiesOf({4, 6}, "[tp=2]{0,1}(S(1))", "[tp=2]{0,1}(S(0))", 0);
  ASSERT_THAT(program.pieces, SizeIs(2));
  EXPECT_FALSE(program.zero_fill);
  const CopyPiece& piece = program.pieces[1];
  EXPECT_EQ(piece.source, 1);
  EXPECT_THAT(piece.extent, ElementsAre(2, 3));
  EXPECT_EQ(piece.source_offset, 0);
  EXPECT_THAT(piece.source_stride, ElementsAre(3, 1));
  EXPECT_EQ(piece.target_offset, 3);
  EXPECT_THAT(piece.target_stride, ElementsAre(6, 1));
  EXPECT_FALSE(piece.accumulate);
}

TEST(CopyPiecesTest, TheFirstAddendOverwritesAndTheOthersCombine) {
  const CopyProgram program = CopiesOf({5}, "[dp=3]{0,1,2}(P)", "[]{0}()", 0);
  ASSERT_THAT(program.pieces, SizeIs(3));
  EXPECT_FALSE(program.pieces[0].accumulate);
  EXPECT_TRUE(program.pieces[1].accumulate);
  EXPECT_TRUE(program.pieces[2].accumulate);
}

TEST(CopyPiecesTest, WhatNoPieceCoversIsZero) {
  const CopyProgram slice = CopiesOf({5}, "[dp=2]{0,1}(S(0))", "[dp=2]{0,1}(P)", 0);
  EXPECT_TRUE(slice.zero_fill);
  EXPECT_THAT(slice.pieces, SizeIs(1));
  const CopyProgram nothing = CopiesOf({5}, "[]{0}()", "[dp=2]{0,1}(P)", 1);
  EXPECT_TRUE(nothing.zero_fill);
  EXPECT_THAT(nothing.pieces, IsEmpty());
}

TEST(CopyPiecesTest, AScalarIsOneElement) {
  const CopyProgram program = CopiesOf(Shape(), "[]{0}()", "[]{1}()", 0);
  ASSERT_THAT(program.pieces, SizeIs(1));
  EXPECT_FALSE(program.zero_fill);
}

// Every element is overwritten exactly once, before it is combined with: boxes of a step are the same or apart.
TEST(CopyPiecesTest, EveryElementIsOverwrittenOnceAndThenCombined) {
  const std::vector<std::string> placements = {"[a=2,b=3]{0,1,2,3,4,5}", "[b=3,a=2]{0,3,1,4,2,5}",
                                               "[c=4,b=2]{0,1,2,3,4,5,6,7}"};
  constexpr const char* kSbps[] = {"S(0)", "S(1)", "B", "P"};
  const Topology topology = OneHost(8, 8);
  int done = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto type = [&] {
      return Dist(absl::StrCat(placements[random() % 3], "(", kSbps[random() % 4], ",", kSbps[random() % 4], ")"));
    };
    const Shape shape = {static_cast<int64_t>(1 + random() % 9), static_cast<int64_t>(1 + random() % 7)};
    const DistType from = type(), to = type();
    const auto reads = BoxingReads::Create({DType::kFloat32, shape}, from, to, topology);
    if (!reads.ok()) continue;
    ++done;
    for (int d = 0; d < to.placement.size(); ++d) {
      const CopyProgram program = CopiesFor(**reads, d);
      std::vector<bool> written(ShardShape(shape, to, d).count(), false);
      for (const CopyPiece& piece : program.pieces) {
        for (int64_t i = 0; i < piece.extent[0] * piece.extent[1]; ++i) {
          const int64_t row = i / piece.extent[1], column = i % piece.extent[1];
          const int64_t at = piece.target_offset + row * piece.target_stride[0] + column * piece.target_stride[1];
          ASSERT_EQ(written[at], piece.accumulate);
          written[at] = true;
        }
      }
      EXPECT_EQ(program.zero_fill, std::count(written.begin(), written.end(), false) > 0);
    }
  }
  EXPECT_GT(done, 300);
}

}  // namespace
}  // namespace oneflow
