#include "kernels/cpu/tile_conv2d.h"

#include "kernels/cpu/tile.h"

#if ONEFLOW_TILES == 0

namespace oneflow::cpu {
std::unique_ptr<TileConv2d> MakeTileConv2d(ConvOp, const KernelArgs&) { return nullptr; }
}  // namespace oneflow::cpu

#else

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_blocks.h"
#include "kernels/cpu/tile_pack.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kChannels = kTileTerms;  // of a line
constexpr int64_t kLineBytes = kTileRowBytes;
static_assert(kLineBytes == kChannels * static_cast<int64_t>(sizeof(BFloat16)) && kChannels == 2 * kBlockChannels);

int64_t Remainder(int64_t a, int64_t b) { return (a % b + b) % b; }

// Images of some channels, [n,c,h,w] in blocks.
struct Images {
  explicit Images(const TensorArg& x) : n(x.dims[0]), c(x.dims[1]), h(x.dims[2]), w(x.dims[3]) {}
  // The first element of the 16 channels `block` of an image.
  int64_t At(int64_t image, int64_t block) const {
    return (image * (c / kBlockChannels) + block) * h * w * kBlockChannels;
  }
  int64_t n, c, h, w;
};

// Where lines lie. Line q = (image * rows + i) * columns + j of set (a, b) is pixel (i * stride + a - padding,
// j * stride + b - padding) of the image, or zeros.
struct LinesShape {
  int64_t images, groups;  // of channels
  int64_t rows, columns;   // of a set and image
  int64_t stride, padding;
  int64_t most_shift;  // lines that a tap may be further on

  int64_t positions() const { return images * rows * columns; }
  int64_t strips() const { return (positions() + kBlock - 1) / kBlock; }
  int64_t lines() const { return strips() * kBlock + most_shift; }  // of a group and set
  int64_t sets() const { return stride * stride; }
  size_t bytes() const { return static_cast<size_t>(sets() * groups * lines() * kLineBytes); }
  // The lines of a group.
  int64_t At(int64_t set, int64_t group) const { return (set * groups + group) * lines() * kLineBytes; }
};

// The lines of a row of a set, which begins at column `from` of the images' row.
void FillRow(const BFloat16* first, const BFloat16* second, int64_t width, int64_t from, int64_t stride,
             int64_t columns, char* to) {
  for (int64_t j = 0; j < columns; ++j, to += kLineBytes) {
    const int64_t column = from + j * stride;
    if (column < 0 || column >= width) {
      std::memset(to, 0, kLineBytes);
    } else {
      std::memcpy(to, first + column * kBlockChannels, kLineBytes / 2);
      std::memcpy(to + kLineBytes / 2, second + column * kBlockChannels, kLineBytes / 2);
    }
  }
}

void FillLines(const LinesShape& s, const Images& x, const BFloat16* data, char* lines) {
  const int64_t bytes_of_row = s.columns * kLineBytes;
  ParallelFor(s.groups * s.images, Grain(s.sets() * s.rows * bytes_of_row), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t group = at / s.images, image = at % s.images;
      const BFloat16 *const first = data + x.At(image, 2 * group), *const second = data + x.At(image, 2 * group + 1);
      for (int64_t set = 0; set < s.sets(); ++set) {
        char* to = lines + s.At(set, group) + image * s.rows * bytes_of_row;
        for (int64_t i = 0; i < s.rows; ++i, to += bytes_of_row) {
          const int64_t row = i * s.stride + set / s.stride - s.padding;
          if (row < 0 || row >= x.h) {
            std::memset(to, 0, static_cast<size_t>(bytes_of_row));
            continue;
          }
          const int64_t skipped = row * x.w * kBlockChannels;
          FillRow(first + skipped, second + skipped, x.w, set % s.stride - s.padding, s.stride, s.columns, to);
        }
        if (image + 1 < s.images) continue;
        std::memset(to, 0, static_cast<size_t>((s.lines() - s.positions()) * kLineBytes));
      }
    }
  });
}

// A kernel k[o,c,taps] as matrices [taps][o][c].
void SplitTaps(const BFloat16* k, int64_t o, int64_t c, int64_t taps, BFloat16* to) {
  ParallelFor(o, Grain(2 * c * taps * static_cast<int64_t>(sizeof(BFloat16))), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const BFloat16* from = k + row * c * taps;
      for (int64_t j = 0; j < c; ++j) {
        for (int64_t tap = 0; tap < taps; ++tap) to[(tap * o + row) * c + j] = *from++;
      }
    }
  });
}

// What a convolution gives: pixels of one parity of the output, by the taps that reach them.
struct OutputPart {
  struct Tap {
    int64_t set, shift;  // of the lines that it reads
    int64_t of_kernel;
  };
  std::vector<Tap> taps;
  int64_t stride, row, column;  // pixel (i, j) is (i * stride + row, j * stride + column) of the output
  int64_t rows, columns;
};

// y, or dx.
class TileConvolution : public TileConv2d {
 public:
  // `turned`: the sum is over the kernel's first dimension.
  TileConvolution(const LinesShape& lines, std::vector<OutputPart> parts, int64_t taps, const Images& in,
                  const Images& out, bool turned)
      : lines_(lines), parts_(std::move(parts)), taps_(taps), in_(in), out_(out), turned_(turned) {}

  size_t WorkspaceBytes() const override { return lines_.bytes() + WeightBytes() * (taps_ > 1 ? 2 : 1); }

  void Run(const KernelArgs& args) const override {
    char* const lines = static_cast<char*>(args.workspace);
    char* const packed = lines + lines_.bytes();
    const auto* matrices = args.in[1].as<const BFloat16>();
    if (taps_ > 1) {
      auto* const split = reinterpret_cast<BFloat16*>(packed + WeightBytes());
      SplitTaps(matrices, turned_ ? in_.c : out_.c, turned_ ? out_.c : in_.c, taps_, split);
      matrices = split;
    }
    FillLines(lines_, in_, args.in[0].as<const BFloat16>(), lines);
    ByFloat(args.out[0].dtype, [&]<typename T>() {
      for (const OutputPart& part : parts_) {
        Pack(part, matrices, packed);
        Multiply(part, lines, packed, args.out[0].as<T>());
      }
    });
  }

 private:
  size_t WeightBytes() const { return static_cast<size_t>(taps_ * in_.c * out_.c) * sizeof(BFloat16); }
  static int64_t Steps(const OutputPart& part, const LinesShape& lines) {
    return static_cast<int64_t>(part.taps.size()) * lines.groups;
  }

  // Panels of 32 outputs, in each the tiles of a tap and 32 channels after another.
  void Pack(const OutputPart& part, const BFloat16* matrices, char* packed) const {
    const int64_t steps = Steps(part, lines_), matrix = in_.c * out_.c;
    ParallelFor(out_.c / kBlock, Grain(2 * kTileBytes * steps), [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        char* to = packed + panel * steps * 2 * kTileBytes;
        for (const OutputPart::Tap& tap : part.taps) {
          const BFloat16* const of_tap = matrices + tap.of_kernel * matrix;
          for (int64_t c = 0; c < in_.c; c += kChannels) {
            for (int64_t o = panel * kBlock; o < (panel + 1) * kBlock; o += kTileSide, to += kTileBytes) {
              auto* const tile = reinterpret_cast<uint32_t*>(to);
              if (turned_) {
                WeaveTile(of_tap + c * out_.c + o, out_.c, kTileTerms, kTileSide, tile);
              } else {
                WeaveColumns(of_tap + o * in_.c + c, in_.c, kTileSide, kTileTerms, tile);
              }
            }
          }
        }
      }
    });
  }

  template <typename T>
  void Multiply(const OutputPart& part, const char* lines, const char* packed, T* out) const {
    const int64_t steps = Steps(part, lines_), panels = out_.c / kBlock, strips = lines_.strips();
    if (steps == 0) return FillZeros(part, out);
    std::vector<int64_t> offsets;  // of the lines of each step
    for (const OutputPart::Tap& tap : part.taps) {
      for (int64_t group = 0; group < lines_.groups; ++group) {
        offsets.push_back(lines_.At(tap.set, group) + tap.shift * kLineBytes);
      }
    }
    const auto a_of = [&](int64_t strip) OF_INLINED {
      return LinesOfStrip{lines + strip * kBlock * kLineBytes, offsets.data()};
    };
    const auto b_of = [&](int64_t panel) OF_INLINED { return PackedTiles(packed + panel * steps * 2 * kTileBytes); };
    const auto multiply = [&](int64_t first_strip, int64_t last_strip, int64_t first_panel, int64_t last_panel) {
      const Tiles::Scope scope;
      Cursor cursor(*this, part);
      // The lines of a few strips stay in the second cache.
      constexpr int64_t kStripsAtOnce = 12;
      MultiplyStrips({first_strip, last_strip, kStripsAtOnce, first_panel, last_panel, {steps}}, a_of, b_of,
                     [&](int64_t strip, int64_t panel, int64_t row, const float* sums)
                         OF_INLINED { cursor.Store(strip, panel, row, sums, out); });
    };
    const int64_t grain = Grain(2 * kTileBytes * steps);
    if (strips >= 2 * NumThreads()) {
      ParallelFor(strips, grain, [&](int64_t begin, int64_t end) { multiply(begin, end, 0, panels); });
    } else {
      ParallelFor(panels, grain, [&](int64_t begin, int64_t end) { multiply(0, strips, begin, end); });
    }
  }

  // Tiles of consecutive lines; those of a step are anywhere.
  struct LinesOfStrip {
    const char* begin;
    const int64_t* offsets;
    static constexpr int64_t row = kLineBytes, second = kTileBytes;
    const char* at(int64_t step) const { return begin + offsets[step]; }
  };

  // Finds the pixel of a strip's row. Rows of a strip come in order.
  class Cursor {
   public:
    Cursor(const TileConvolution& of, const OutputPart& part) : of_(of), part_(part) {}

    template <typename T>
    OF_INLINE void Store(int64_t strip, int64_t panel, int64_t row, const float* sums, T* out) {
      if (row == 0) {
        Seek(strip * kBlock);
      } else if (++j_ == of_.lines_.columns) {
        j_ = 0;
        if (++i_ == of_.lines_.rows) i_ = 0, ++image_;
      }
      if (j_ >= part_.columns || i_ >= part_.rows || image_ >= of_.lines_.images) return;
      const Images& y = of_.out_;
      const int64_t pixel = (i_ * part_.stride + part_.row) * y.w + j_ * part_.stride + part_.column;
      T* const first = out + y.At(image_, 2 * panel) + pixel * kBlockChannels;
      T* const second = first + y.h * y.w * kBlockChannels;
      for (int64_t c = 0; c < kBlockChannels; c += kLanes) {
        cpu::Store(first + c, Load(sums + c));
        cpu::Store(second + c, Load(sums + kBlockChannels + c));
      }
    }

   private:
    void Seek(int64_t position) {
      j_ = position % of_.lines_.columns;
      i_ = position / of_.lines_.columns % of_.lines_.rows;
      image_ = position / of_.lines_.columns / of_.lines_.rows;
    }

    const TileConvolution& of_;
    const OutputPart& part_;
    int64_t image_ = 0, i_ = 0, j_ = 0;
  };

  // No tap reaches these pixels.
  template <typename T>
  void FillZeros(const OutputPart& part, T* out) const {
    ParallelFor(out_.n * (out_.c / kBlockChannels), 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        T* const block = out + at * out_.h * out_.w * kBlockChannels;
        for (int64_t i = 0; i < part.rows; ++i) {
          for (int64_t j = 0; j < part.columns; ++j) {
            const int64_t pixel = (i * part.stride + part.row) * out_.w + j * part.stride + part.column;
            std::memset(block + pixel * kBlockChannels, 0, kBlockChannels * sizeof(T));
          }
        }
      }
    });
  }

  const LinesShape lines_;
  const std::vector<OutputPart> parts_;
  const int64_t taps_;  // of the kernel
  const Images in_, out_;
  const bool turned_;
};

// dk. Positions are taken in chunks, so that what is read of them stays in the second cache. A thread takes groups of
// channels of x, whose lines it weaves chunk by chunk: by pairs that begin at even positions, and at odd ones.
class TileConvolutionOfWeights : public TileConv2d {
 public:
  TileConvolutionOfWeights(const LinesShape& lines, std::vector<OutputPart::Tap> taps, const Images& x,
                           const Images& dy, int threads)
      : lines_(lines),
        taps_(std::move(taps)),
        x_(x),
        dy_(dy),
        steps_(lines.strips()),
        chunk_(std::clamp<int64_t>(kBytesOfChunk / (kLineBytes * dy.c), 8, 32)),
        threads_(std::max(1, threads)) {}

  size_t WorkspaceBytes() const override {
    return lines_.bytes() + static_cast<size_t>(StripBytes() * Strips() + threads_ * ThreadBytes());
  }

  void Run(const KernelArgs& args) const override {
    char* const lines = static_cast<char*>(args.workspace);
    char* const strips = lines + lines_.bytes();
    char* const own = strips + StripBytes() * Strips();
    FillLines(lines_, x_, args.in[0].as<const BFloat16>(), lines);
    PackStrips(args.in[1].as<const BFloat16>(), strips);
    ByFloat(args.out[0].dtype, [&]<typename T>() {
      ParallelForThread(lines_.groups, 1, threads_, [&](int64_t begin, int64_t end, int thread) {
        char* const space = own + thread * ThreadBytes();
        for (int64_t group = begin; group < end; ++group) {
          float* const sums = reinterpret_cast<float*>(space);
          Sum(group, lines, strips, sums, space + SumBytes());
          Write(group, sums, args.out[0].as<T>());
        }
      });
    });
  }

 private:
  static constexpr int64_t kBytesOfChunk = 512 << 10;
  static constexpr int64_t kPairBytes = 2 * kLineBytes;  // two lines, woven

  int64_t Strips() const { return dy_.c / kBlock; }
  int64_t StripBytes() const { return steps_ * 2 * kTileBytes; }
  int64_t Taps() const { return static_cast<int64_t>(taps_.size()); }
  int64_t SumBytes() const { return Taps() * Strips() * kBlock * kBlock * static_cast<int64_t>(sizeof(float)); }
  // Of a set, of one parity, in a chunk with the lines that taps reach beyond it.
  int64_t PairsOfChunk() const { return (chunk_ * kBlock + lines_.most_shift) / 2 + 1; }
  int64_t ThreadBytes() const { return SumBytes() + lines_.sets() * 2 * PairsOfChunk() * kPairBytes; }

  // dy as strips of a's tiles: 32 channels, positions as terms; zeros between its rows.
  void PackStrips(const BFloat16* dy, char* strips) const {
    ParallelFor(steps_, Grain(StripBytes() / steps_ * Strips()), [&](int64_t begin, int64_t end) {
      std::vector<int64_t> pixels(kBlock);
      for (int64_t step = begin; step < end; ++step) {
        const bool dense = FindPixels(step * kBlock, pixels);
        for (int64_t block = 0; block < dy_.c / kBlockChannels; ++block) {
          char* const tile = strips + block / 2 * StripBytes() + (2 * step + block % 2) * kTileBytes;
          PackTile(dy, block, pixels, dense, reinterpret_cast<uint32_t*>(tile));
        }
      }
    });
  }
  // The elements of block 0 where the pixels of positions begin; -1 between rows. Whether they follow one another.
  bool FindPixels(int64_t position, std::vector<int64_t>& pixels) const {
    bool dense = true;
    for (int64_t p = 0; p < kBlock; ++p, ++position) {
      const int64_t j = position % lines_.columns, i = position / lines_.columns % lines_.rows;
      const int64_t image = position / lines_.columns / lines_.rows;
      const bool inside = j < dy_.w && i < dy_.h && image < dy_.n;
      pixels[p] = inside ? dy_.At(image, 0) + (i * dy_.w + j) * kBlockChannels : -1;
      dense = dense && inside && pixels[p] == pixels[0] + p * kBlockChannels;
    }
    return dense;
  }
  void PackTile(const BFloat16* dy, int64_t block, const std::vector<int64_t>& pixels, bool dense,
                uint32_t* tile) const {
    const BFloat16* const of_block = dy + dy_.At(0, block);
    if (dense) return TransposeTile(of_block + pixels[0], kBlockChannels, kBlock, kBlockChannels, tile);
    alignas(64) BFloat16 gathered[kBlock * kBlockChannels];
    for (int64_t p = 0; p < kBlock; ++p) {
      BFloat16* const to = gathered + p * kBlockChannels;
      if (pixels[p] < 0) {
        std::memset(to, 0, kLineBytes / 2);
      } else {
        std::memcpy(to, of_block + pixels[p], kLineBytes / 2);
      }
    }
    TransposeTile(gathered, kBlockChannels, kBlock, kBlockChannels, tile);
  }

  // Two lines as pairs: 32 dwords.
  static OF_INLINE void Weave(const char* lines, char* to) {
    const auto* const first = reinterpret_cast<const BFloat16*>(lines);
    const BFloat16* const second = first + kChannels;
    for (int64_t c = 0; c < kChannels; c += kLanes) {
      Store(reinterpret_cast<float*>(to) + c, (F32s)PairsOf(BitsAt(first + c), BitsAt(second + c)));
    }
  }

  void Sum(int64_t group, const char* lines, const char* strips, float* sums, char* woven) const {
    const Tiles::Scope scope;
    for (int64_t step = 0; step < steps_; step += chunk_) {
      const int64_t steps = std::min(chunk_, steps_ - step);
      WeaveChunk(group, lines, step, woven);
      float* of_block = sums;
      for (const OutputPart::Tap& tap : taps_) {
        const TilePair b = {woven + ((tap.set * 2 + tap.shift % 2) * PairsOfChunk() + tap.shift / 2) * kPairBytes,
                            kLineBytes, kTileSide * kPairBytes, kPairBytes};
        for (int64_t strip = 0; strip < Strips(); ++strip, of_block += kBlock * kBlock) {
          if (step == 0) {
            ZeroSums();
          } else {
            LoadSums(of_block, kBlock);
          }
          MultiplyBlock(PackedTiles(strips + strip * StripBytes() + step * 2 * kTileBytes), b, steps);
          StoreSums(of_block, kBlock);
        }
      }
    }
  }
  void WeaveChunk(int64_t group, const char* lines, int64_t step, char* woven) const {
    const bool has_odd = std::any_of(taps_.begin(), taps_.end(), [](const auto& tap) { return tap.shift % 2 != 0; });
    for (int64_t set = 0; set < lines_.sets(); ++set) {
      const char* const from = lines + lines_.At(set, group) + step * kBlock * kLineBytes;
      const int64_t left = lines_.lines() - step * kBlock;
      for (int64_t odd = 0; odd < 1 + has_odd; ++odd) {
        const int64_t pairs = std::min(PairsOfChunk(), (left - odd) / 2);
        char* const to = woven + (set * 2 + odd) * PairsOfChunk() * kPairBytes;
        for (int64_t pair = 0; pair < pairs; ++pair)
          Weave(from + (2 * pair + odd) * kLineBytes, to + pair * kPairBytes);
      }
    }
  }

  // dk[o,c,tap] of the group's channels.
  template <typename T>
  void Write(int64_t group, const float* sums, T* dk) const {
    const int64_t taps = Taps(), of_tap = Strips() * kBlock * kBlock;
    std::vector<int64_t> places(taps);  // by tap of the kernel
    for (int64_t tap = 0; tap < taps; ++tap) places[taps_[tap].of_kernel] = tap * of_tap;
    for (int64_t o = 0; o < dy_.c; ++o) {
      const float* const row = sums + o * kBlock;
      T* to = dk + (o * x_.c + group * kChannels) * taps;
      if (taps == 1) {
        for (int64_t c = 0; c < kChannels; c += kLanes) Store(to + c, Load(row + c));
        continue;
      }
      for (int64_t c = 0; c < kChannels; ++c) {
        for (int64_t tap = 0; tap < taps; ++tap) FromFloat(row[places[tap] + c], to++);
      }
    }
  }

  const LinesShape lines_;
  const std::vector<OutputPart::Tap> taps_;
  const Images x_, dy_;
  const int64_t steps_, chunk_;
  const int threads_;
};

// What an op is asked for: k is [dy's channels, x's channels, height, width].
struct Asked {
  Images x, dy;
  int64_t height, width, stride, padding;
};

// The taps of y, and the lines that they read.
std::vector<OutputPart::Tap> ForwardTaps(const Asked& a, LinesShape& lines) {
  const int64_t s = a.stride;
  lines = {a.x.n, a.x.c / kChannels, a.dy.h + (a.height - 1) / s, a.dy.w + (a.width - 1) / s, s, a.padding, 0};
  std::vector<OutputPart::Tap> taps;
  for (int64_t i = 0; i < a.height; ++i) {
    for (int64_t j = 0; j < a.width; ++j) {
      const int64_t shift = i / s * lines.columns + j / s;
      taps.push_back({i % s * s + j % s, shift, i * a.width + j});
      lines.most_shift = std::max(lines.most_shift, shift);
    }
  }
  return taps;
}

// Along one dimension: pixel i * stride + parity of dx is the sum over taps first, first + stride, ... of
// dy[i + reach - tap / stride].
struct ParityOfDx {
  ParityOfDx(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t parity)
      : pixels(std::max<int64_t>(0, (size - parity + stride - 1) / stride)),
        first(Remainder(parity + padding, stride)),
        reach((parity + padding - first) / stride),
        taps(first < taps ? (taps - first + stride - 1) / stride : 0) {}
  int64_t pixels, first, reach, taps;
};

std::unique_ptr<TileConv2d> MakeForward(const Asked& a) {
  LinesShape lines;
  OutputPart all = {ForwardTaps(a, lines), 1, 0, 0, a.dy.h, a.dy.w};
  return std::make_unique<TileConvolution>(lines, std::vector<OutputPart>{all}, a.height * a.width, a.x, a.dy, false);
}

std::unique_ptr<TileConv2d> MakeDgrad(const Asked& a) {
  const int64_t s = a.stride;
  const auto rows_of = [&](int64_t parity) { return ParityOfDx(a.x.h, a.height, s, a.padding, parity); };
  const auto columns_of = [&](int64_t parity) { return ParityOfDx(a.x.w, a.width, s, a.padding, parity); };
  // Zeros before dy's first row and column, as many as a tap may reach.
  int64_t padding = 0;
  for (int64_t parity = 0; parity < s; ++parity) {
    for (const ParityOfDx& p : {rows_of(parity), columns_of(parity)}) {
      padding = std::max(padding, p.taps - 1 - p.reach);
    }
  }
  LinesShape lines = {a.dy.n, a.dy.c / kChannels, 0, 0, 1, padding, 0};
  for (int64_t parity = 0; parity < s; ++parity) {
    const ParityOfDx rows = rows_of(parity), columns = columns_of(parity);
    lines.rows = std::max(lines.rows, rows.pixels + rows.reach + padding);
    lines.columns = std::max(lines.columns, columns.pixels + columns.reach + padding);
  }
  std::vector<OutputPart> parts;
  for (int64_t part = 0; part < s * s; ++part) {
    const ParityOfDx rows = rows_of(part / s), columns = columns_of(part % s);
    OutputPart out = {{}, s, part / s, part % s, rows.pixels, columns.pixels};
    for (int64_t i = 0; i < rows.taps; ++i) {
      for (int64_t j = 0; j < columns.taps; ++j) {
        const int64_t shift = (rows.reach - i + padding) * lines.columns + columns.reach - j + padding;
        out.taps.push_back({0, shift, (rows.first + i * s) * a.width + columns.first + j * s});
        lines.most_shift = std::max(lines.most_shift, shift);
      }
    }
    parts.push_back(std::move(out));
  }
  return std::make_unique<TileConvolution>(lines, std::move(parts), a.height * a.width, a.dy, a.x, true);
}

std::unique_ptr<TileConv2d> MakeWgrad(const Asked& a, int threads) {
  LinesShape lines;
  std::vector<OutputPart::Tap> taps = ForwardTaps(a, lines);
  return std::make_unique<TileConvolutionOfWeights>(lines, std::move(taps), a.x, a.dy, threads);
}

bool Suits(const TensorArg& x) { return x.rank == 4 && x.in_blocks() && x.dims[1] % kChannels == 0 && x.count > 0; }

}  // namespace

std::unique_ptr<TileConv2d> MakeTileConv2d(ConvOp op, const KernelArgs& args) {
  const TensorArg& x = op == ConvOp::kDgrad ? args.out[0] : args.in[0];
  const TensorArg& k = op == ConvOp::kWgrad ? args.out[0] : args.in[1];
  const TensorArg& dy = op == ConvOp::kForward ? args.out[0] : op == ConvOp::kDgrad ? args.in[0] : args.in[1];
  const bool narrow = args.in[0].dtype == DType::kBFloat16 && args.in[1].dtype == DType::kBFloat16;
  if (!narrow || !Suits(x) || !Suits(dy) || k.count == 0) return nullptr;
  if (x.dims[1] != k.dims[1] || args.attrs->Int("dilation", 1) != 1) return nullptr;
  const Asked asked = {
      Images(x), Images(dy), k.dims[2], k.dims[3], args.attrs->Int("stride", 1), args.attrs->Int("padding")};
  if (op == ConvOp::kForward) return MakeForward(asked);
  return op == ConvOp::kDgrad ? MakeDgrad(asked) : MakeWgrad(asked, args.threads);
}

}  // namespace oneflow::cpu

#endif
