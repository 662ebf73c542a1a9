// Convolutions of bf16 on tiles (tile.h), of operands in blocks of channels (oneflow_core/memory_layout.h), and their
// gradients.
//
//   lines   the operand that is read, with its padding: 32 channels of a pixel are a cache line, and lines of one group
//           of channels follow one another as the pixels do. A tap of the kernel is a number of lines further on, so
//           that 16 lines in a row are a tile of every tap. With a stride of s there are s^2 sets of lines, whose taps
//           are dense.
//
//   y[pixel, o]  = sum over taps and channels of lines[pixel + tap, c] k[o, c, tap]
//   dx[pixel, c] the same of dy, with the taps turned round; with a stride, by parity of the pixel
//   dk[o, c, tap] = sum over pixels of dy[pixel, o] lines[pixel + tap, c]
//
// Pixels between the rows of the output are computed too, and not stored: there are as many of them in a row as taps
// beyond the first.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/kernel.h"

namespace oneflow::cpu {

enum class ConvOp { kForward, kDgrad, kWgrad };

class TileConv2d {
 public:
  virtual ~TileConv2d() = default;
  virtual size_t WorkspaceBytes() const = 0;
  virtual void Run(const KernelArgs& args) const = 0;
};

// For operands like these; they may be null. Null on processors without tiles, of other types than bf16, and where
// channels are no multiple of 32, do not lie in blocks, or are in groups, and where taps are dilated.
std::unique_ptr<TileConv2d> MakeTileConv2d(ConvOp op, const KernelArgs& args);

}  // namespace oneflow::cpu
