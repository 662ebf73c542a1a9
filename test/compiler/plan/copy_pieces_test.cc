#include "compiler/plan/copy_pieces.h"

#include <random>

#include "gmock/gmock.h"
#include "test/compiler/plan/graph_kit.h"

namespace oneflow {
namespace {

using testing::Dist;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CopyPiecesTest, AColumnOfASplitMatrixIsAStridedCopy) {
  // S(1) -> S(0) of [4,6] on two ranks: rank 0 gets rows 0-1, columns 3-5 from rank 1, which holds [4,3].
  BoxingStep step{Dist("[tp=2]{0,1}(S(1))"), Dist("[tp=2]{0,1}(S(0))")};
  step.pieces = {{{0, {{0, 0}, {2, 3}}}, {1, {{0, 3}, {2, 3}}}}, {}};
  const CopyProgram program = CopiesFor({4, 6}, step, 0);
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
  BoxingStep step{Dist("[dp=3]{0,1,2}(P)"), Dist("[]{0}()")};
  step.pieces = {{{0, {{0}, {5}}}, {1, {{0}, {5}}}, {2, {{0}, {5}}}}};
  const CopyProgram program = CopiesFor({5}, step, 0);
  ASSERT_THAT(program.pieces, SizeIs(3));
  EXPECT_FALSE(program.pieces[0].accumulate);
  EXPECT_TRUE(program.pieces[1].accumulate);
  EXPECT_TRUE(program.pieces[2].accumulate);
}

TEST(CopyPiecesTest, WhatNoPieceCoversIsZero) {
  BoxingStep step{Dist("[dp=2]{0,1}(S(0))"), Dist("[dp=2]{0,1}(P)")};
  step.pieces = {{{0, {{0}, {3}}}}, {{1, {{3}, {2}}}}};
  EXPECT_TRUE(CopiesFor({5}, step, 0).zero_fill);
  step.pieces = {{}, {}};
  const CopyProgram nothing = CopiesFor({5}, step, 1);
  EXPECT_TRUE(nothing.zero_fill);
  EXPECT_THAT(nothing.pieces, IsEmpty());
}

TEST(CopyPiecesTest, AScalarIsOneElement) {
  BoxingStep step{Dist("[]{0}()"), Dist("[]{1}()")};
  step.pieces = {{{0, {{}, {}}}}};
  const CopyProgram program = CopiesFor(Shape(), step, 0);
  ASSERT_THAT(program.pieces, SizeIs(1));
  EXPECT_FALSE(program.zero_fill);
}

// Boxes that overlap in any way: every element is overwritten exactly once, before it is combined with, as often as
// boxes cover it.
TEST(CopyPiecesTest, OverlappingBoxesAreCutSoThatEveryElementIsOverwrittenOnce) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Shape shape = {5, 4, 3};
    BoxingStep step{Dist("[]{0}()"), Dist("[]{1}()")};
    step.pieces.resize(1);
    std::vector<int> expected(shape.count(), 0), combined(shape.count(), 0);
    std::vector<bool> written(shape.count(), false);
    const auto visit = [&](const std::vector<int64_t>& start, const std::vector<int64_t>& extent, auto&& f) {
      for (int64_t i = 0; i < extent[0]; ++i) {
        for (int64_t j = 0; j < extent[1]; ++j) {
          for (int64_t k = 0; k < extent[2]; ++k) f(((start[0] + i) * 4 + start[1] + j) * 3 + start[2] + k);
        }
      }
    };
    for (uint32_t n = random() % 6; n > 0; --n) {
      Region box{{0, 0, 0}, {0, 0, 0}};
      for (int d = 0; d < 3; ++d) {
        box.start[d] = random() % shape[d];
        box.extent[d] = 1 + random() % (shape[d] - box.start[d]);
      }
      step.pieces[0].push_back({0, box});
      visit(box.start, box.extent, [&](int64_t at) { ++expected[at]; });
    }
    const CopyProgram program = CopiesFor(shape, step, 0);
    for (const CopyPiece& piece : program.pieces) {
      ASSERT_EQ(piece.source_offset, piece.target_offset);
      visit({0, 0, 0}, piece.extent, [&](int64_t at) {
        const int64_t element = at + piece.target_offset;
        ASSERT_EQ(written[element], piece.accumulate);
        written[element] = true;
        ++combined[element];
      });
    }
    EXPECT_EQ(combined, expected);
    EXPECT_EQ(program.zero_fill, std::count(written.begin(), written.end(), false) > 0);
  }
}

}  // namespace
}  // namespace oneflow
