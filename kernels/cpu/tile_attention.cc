#include "kernels/cpu/tile_attention.h"

#include "kernels/cpu/tile.h"

#if ONEFLOW_TILES == 0

namespace oneflow::cpu {
bool SuitsTiles(const AttentionShape&) { return false; }
size_t ForwardTileScratch(const AttentionShape&) { return 0; }
size_t BackwardTileScratch(const AttentionShape&) { return 0; }
const char* AttentionOnTiles(const KernelArgs&) { return "attention: there are no tiles"; }
const char* AttentionGradOnTiles(const KernelArgs&) { return "attention: there are no tiles"; }
}  // namespace oneflow::cpu

#else

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention_scores.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tile_blocks.h"
#include "kernels/cpu/tile_pack.h"

namespace oneflow::cpu {
namespace {

constexpr float kLog2OfE = 1.44269504f, kLnOf2 = 0.693147181f;
// Keys whose dS^T is kept for dQ: long samples then take memory by tokens, not by their square.
constexpr int64_t kKeysOfDq = 256;
constexpr int64_t kStepBytes = 2 * kTileBytes;  // of a block's two tiles

// The queries or the keys of a head, in blocks of 32.
struct Side {
  explicit Side(int64_t rows) : rows(rows), blocks((rows + kBlock - 1) / kBlock), padded(blocks * kBlock) {}
  // Bytes of a row of 32 of the other side, for each of these: where a line more keeps rows of a tile in different sets
  // of the first cache.
  int64_t row_bytes() const { return padded * static_cast<int64_t>(sizeof(BFloat16)) + kTileRowBytes; }
  int64_t rows, blocks, padded;
};

struct Blocks {
  explicit Blocks(const AttentionShape& s) : queries(s.tokens), keys(s.keys), d(s.d / kBlock) {}
  Side queries, keys;
  int64_t d;                                                                        // blocks
  int64_t keys_of_dq() const { return std::min(keys.blocks, kKeysOfDq / kBlock); }  // blocks
  // Bytes of a side that is packed, whichever way.
  int64_t head_bytes(const Side& side) const { return side.blocks * d * kStepBytes; }
};

// Blocks of keys that a block of queries sees, and the other way round: those from `begin` to before `end`.
struct BlockRange {
  int64_t begin, end;
};
BlockRange KeysOf(const AttentionShape& s, const Blocks& n, int64_t queries) {
  return {s.FirstVisible(queries * kBlock) / kBlock, s.causal ? queries + 1 : n.keys.blocks};
}
BlockRange QueriesOf(const AttentionShape& s, const Blocks& n, int64_t keys) {
  const int64_t last = (keys + 1) * kBlock - 1 + s.window - 1;  // the last query that sees the last key
  return {s.causal ? keys : 0, s.window > 0 ? std::min(n.queries.blocks, last / kBlock + 1) : n.queries.blocks};
}

// A thread's memory, piece by piece.
class Pieces {
 public:
  explicit Pieces(void* memory) : at_(static_cast<char*>(memory)) {}
  template <typename T = char>
  T* Take(int64_t bytes) {
    char* const piece = at_;
    at_ += (bytes + kTileRowBytes - 1) / kTileRowBytes * kTileRowBytes;
    return reinterpret_cast<T*>(piece);
  }
  size_t Size(const void* memory) const { return static_cast<size_t>(at_ - static_cast<const char*>(memory)); }

 private:
  char* at_;
};

// --- packing: `x` is a head in its tensor, rows `stride` apart

// Sums along d: for each block of rows its steps along d, as right operands.
void PackAlongD(const Side& side, int64_t blocks_of_d, const BFloat16* x, int64_t stride, char* to) {
  for (int64_t row = 0; row < side.rows; row += kTileSide) {
    for (int64_t step = 0; step < blocks_of_d; ++step) {
      char* const tile = to + (row / kBlock * blocks_of_d + step) * kStepBytes + row / kTileSide % 2 * kTileBytes;
      WeaveColumns(x + row * stride + step * kTileTerms, stride, side.rows - row, kTileTerms,
                   reinterpret_cast<uint32_t*>(tile));
    }
  }
  // The last block may have no second tile.
  if ((side.rows + kTileSide - 1) / kTileSide % 2 == 0) return;
  for (int64_t step = 0; step < blocks_of_d; ++step) {
    std::memset(to + ((side.blocks - 1) * blocks_of_d + step) * kStepBytes + kTileBytes, 0, kTileBytes);
  }
}

// Sums along the rows: for each block of d the steps along the rows, tile by tile as `pack` lays them out.
template <typename Pack>
void PackByRows(const Side& side, int64_t d, const BFloat16* x, int64_t stride, char* to, Pack pack) {
  for (int64_t step = 0; step < side.blocks; ++step) {
    const BFloat16* const from = x + step * kTileTerms * stride;
    for (int64_t c = 0; c < d; c += kTileSide) {
      char* const tile = to + (c / kBlock * side.blocks + step) * kStepBytes + c / kTileSide % 2 * kTileBytes;
      pack(from + c, stride, side.rows - step * kTileTerms, kTileSide, reinterpret_cast<uint32_t*>(tile));
    }
  }
}
// As right operands, and as left ones.
void PackAlongRows(const Side& side, int64_t d, const BFloat16* x, int64_t stride, char* to) {
  PackByRows(side, d, x, stride, to, WeaveTile);
}
void TransposeAlongRows(const Side& side, int64_t d, const BFloat16* x, int64_t stride, char* to) {
  PackByRows(side, d, x, stride, to, TransposeTile);
}

// A block of rows as a left operand: where it lies, or, of one that is not whole, a copy beside zeros in `tail`.
TilePair RowsOf(const Side& side, int64_t d, const BFloat16* x, int64_t stride, int64_t block, char* tail) {
  const int64_t first = block * kBlock, rows = std::min(kBlock, side.rows - first);
  const BFloat16* const from = x + first * stride;
  if (rows == kBlock) return TilesOfRows(from, stride * static_cast<int64_t>(sizeof(BFloat16)));
  const int64_t row = d * static_cast<int64_t>(sizeof(BFloat16)) + kTileRowBytes;
  std::memset(tail, 0, static_cast<size_t>(kBlock * row));
  for (int64_t i = 0; i < rows; ++i) std::memcpy(tail + i * row, from + i * stride, d * sizeof(BFloat16));
  return TilesOfRows(tail, row);
}
int64_t TailBytes(const AttentionShape& s) {
  return kBlock * (s.d * static_cast<int64_t>(sizeof(BFloat16)) + kTileRowBytes);
}

// --- forward

struct Forward {
  const BFloat16 *q, *k, *v;
  BFloat16* out;
  float* lse;
};

struct ForwardSpace {
  ForwardSpace(const AttentionShape& s, const Blocks& n, void* memory) {
    Pieces pieces(memory);
    k = pieces.Take(n.head_bytes(n.keys));
    v = pieces.Take(n.head_bytes(n.keys));
    row = n.keys.padded + kTileSide;
    scores = pieces.Take<float>(kBlock * row * static_cast<int64_t>(sizeof(float)));
    p = pieces.Take(kBlock * n.keys.row_bytes());
    tail = pieces.Take(TailBytes(s));
    size = pieces.Size(memory);
  }
  char *k, *v, *p, *tail;
  float* scores;
  int64_t row;  // floats from a row of scores to the next
  size_t size;
};

// A row of raw scores, of which a query sees those from `first` to before `end`, becomes P times its sum, which is
// returned; zeros around it, from `begin` on and up to `computed`, which are multiples of 32.
OF_INLINE float SoftmaxRow(const float* scores, int64_t begin, int64_t first, int64_t end, int64_t computed,
                           float factor, float shift, BFloat16* p) {
  F32s sum = Splat(0);
  for (int64_t j = begin; j < first; j += kLanes) Store(p + j, Splat(0));
  VecLoop(end - first, [&](int64_t j, auto lanes) OF_INLINED {
    const F32s e = Keep(Exp2<4>(Load(scores + first + j) * factor - shift), lanes);
    sum += e;
    Store(p + first + j, e);
  });
  for (int64_t j = first + (end - first + kLanes - 1) / kLanes * kLanes; j < computed; j += kLanes) {
    Store(p + j, Splat(0));
  }
  return Sum(sum);
}

// 32 queries' sums of a block of columns, divided, into their rows.
void StoreOut(const AttentionShape& s, const float* sums, const float* inverse, int64_t rows, BFloat16* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < kBlock; c += kLanes)
      Store(to + i * s.columns + c, Load(sums + i * kBlock + c) * inverse[i]);
  }
}

void ForwardTileHead(const AttentionShape& s, const Forward& h, const Ahead& ahead, const ForwardSpace& space) {
  const Blocks n(s);
  const float factor = s.scale * kLog2OfE;
  const int64_t row_bytes = n.keys.row_bytes();
  if (s.tokens % kBlock != 0) std::memset(space.p, 0, static_cast<size_t>(kBlock * row_bytes));
  for (int64_t block = 0; block < n.queries.blocks; ++block) {
    const int64_t begin = block * kBlock, rows = std::min(kBlock, s.tokens - begin);
    const BlockRange keys = KeysOf(s, n, block);
    const TilePair q = RowsOf(n.queries, s.d, h.q, s.columns, block, space.tail);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      ZeroSums();
      MultiplyBlock(q, PackedTiles(space.k + j * n.d * kStepBytes), n.d);
      StoreSums(space.scores + j * kBlock, space.row);
    }
    alignas(64) float shift[kBlock], sum[kBlock], inverse[kBlock];
    for (int64_t i = 0; i < rows; ++i) {
      const float* const scores = space.scores + i * space.row;
      const int64_t first = s.FirstVisible(begin + i), end = s.Visible(begin + i);
      shift[i] = MaxOfRow(scores + first, end - first) * factor;
      auto* const p = reinterpret_cast<BFloat16*>(space.p + i * row_bytes);
      sum[i] = SoftmaxRow(scores, keys.begin * kBlock, first, end, keys.end * kBlock, factor, shift[i], p);
      ahead.Ask<BFloat16>(s, begin + i, {h.q}, {h.out}, {h.k, h.v}, {});
    }
    VecLoop(rows, [&](int64_t i, auto lanes) {
      const F32s of_rows = Load(sum + i, lanes, 1.0f);
      Store(h.lse + begin + i, Load(shift + i, lanes) * kLnOf2 + LogOfSums(of_rows), lanes);
      Store(inverse + i, 1.0f / of_rows, lanes);
    });
    alignas(64) float sums[kBlock * kBlock];
    for (int64_t c = 0; c < n.d; ++c) {
      ZeroSums();
      MultiplyBlock(TilesOfRows(space.p + keys.begin * kTileRowBytes, row_bytes),
                    PackedTiles(space.v + (c * n.keys.blocks + keys.begin) * kStepBytes), keys.end - keys.begin);
      StoreSums(sums, kBlock);
      StoreOut(s, sums, inverse, rows, h.out + begin * s.columns + c * kBlock);
    }
  }
}

// --- backward

struct BackwardSpace {
  BackwardSpace(const AttentionShape& s, const Blocks& n, void* memory) {
    Pieces pieces(memory);
    const int64_t kept = s.group > 1 ? n.keys.padded * s.d * static_cast<int64_t>(sizeof(float)) : 0;
    for (float** sums : {&dk, &dv}) *sums = pieces.Take<float>(kept);
    for (char** packed : {&q_along_d, &dout_along_d, &q, &dout}) *packed = pieces.Take(n.head_bytes(n.queries));
    k = pieces.Take(n.head_bytes(n.keys));
    p = pieces.Take(kBlock * n.queries.row_bytes());
    ds = pieces.Take(kBlock * n.queries.row_bytes());
    ds_by_keys = pieces.Take(n.queries.blocks * n.keys_of_dq() * kStepBytes);
    const int64_t floats = static_cast<int64_t>(sizeof(float));
    dq = pieces.Take<float>(n.keys.blocks > n.keys_of_dq() ? n.queries.padded * s.d * floats : 0);
    lse = pieces.Take<float>(n.queries.padded * floats);
    dots = pieces.Take<float>(n.queries.padded * floats);
    k_tail = pieces.Take(TailBytes(s));
    v_tail = pieces.Take(TailBytes(s));
    size = pieces.Size(memory);
  }
  float *dk, *dv;                  // sums of the heads of a group so far, block by block, if there are several
  char *q_along_d, *dout_along_d;  // right operands of S^T and dP^T
  char *q, *dout;                  // of dK and dV
  char* k;                         // the left operand of dQ^T
  char *p, *ds;                    // rows: 32 keys' P^T and dS^T
  char* ds_by_keys;                // for each block of queries dS^T of the last keys, as a right operand
  float* dq;                       // sums of dQ^T, block by block, if one pass does not have all keys
  float *lse, *dots;               // by query: lse / ln 2, and dout . out less dlse
  char *k_tail, *v_tail;
  size_t size;
};

class TileHeadGradient {
 public:
  // `member`: the head's place in its group.
  TileHeadGradient(const AttentionShape& s, const AttentionHead<BFloat16>& h, int64_t member,
                   const BackwardSpace& space)
      : s_(s), h_(h), member_(member), n_(s), space_(space), factor_(s.scale * kLog2OfE) {}

  void Run(const Ahead& ahead) const {
    PackAlongD(n_.queries, n_.d, h_.q, s_.columns, space_.q_along_d);
    PackAlongD(n_.queries, n_.d, h_.dout, s_.columns, space_.dout_along_d);
    PackAlongRows(n_.queries, s_.d, h_.q, s_.columns, space_.q);
    PackAlongRows(n_.queries, s_.d, h_.dout, s_.columns, space_.dout);
    if (member_ == 0) TransposeAlongRows(n_.keys, s_.d, h_.k, s_.kv_columns, space_.k);
    FindDots();
    for (int64_t first = 0; first < n_.keys.blocks; first += n_.keys_of_dq()) {
      const int64_t last = std::min(n_.keys.blocks, first + n_.keys_of_dq());
      for (int64_t block = first; block < last; ++block) {
        GiveKeys(block, block - first);
        for (int64_t i = block * kBlock; i < std::min(s_.keys, (block + 1) * kBlock); ++i) {
          ahead.Ask<BFloat16>(s_, i, {h_.q, h_.dout, h_.out}, {h_.dq}, {h_.k, h_.v}, {h_.dk, h_.dv});
        }
      }
      AddDq(first, last);
    }
  }

 private:
  void FindDots() const {
    for (int64_t i = 0; i < s_.tokens; ++i) {
      space_.dots[i] = MeanOfGradients(s_, h_, i);
      space_.lse[i] = h_.lse[i] * kLog2OfE;
    }
    // Queries that there are not: their rows of Q and dout are zeros, and so is what they add to dK and dV.
    std::fill(space_.dots + s_.tokens, space_.dots + n_.queries.padded, 0.0f);
    std::fill(space_.lse + s_.tokens, space_.lse + n_.queries.padded, 0.0f);
  }

  // dK and dV of a block of keys, and its dS^T for dQ.
  void GiveKeys(int64_t block, int64_t step) const {
    const TilePair k = RowsOf(n_.keys, s_.d, h_.k, s_.kv_columns, block, space_.k_tail),
                   v = RowsOf(n_.keys, s_.d, h_.v, s_.kv_columns, block, space_.v_tail);
    const BlockRange seen_by = QueriesOf(s_, n_, block);
    alignas(64) float scores[kBlock * kBlock], dp[kBlock * kBlock];
    for (int64_t queries = seen_by.begin; queries < seen_by.end; ++queries) {
      const int64_t at = queries * n_.d * kStepBytes;
      ZeroSums();
      MultiplyBlock(k, PackedTiles(space_.q_along_d + at), n_.d);
      StoreSums(scores, kBlock);
      ZeroSums();
      MultiplyBlock(v, PackedTiles(space_.dout_along_d + at), n_.d);
      StoreSums(dp, kBlock);
      GiveDs(block, queries, scores, dp, space_.ds_by_keys + (queries * n_.keys_of_dq() + step) * kStepBytes);
    }
    GiveSums(space_.p, space_.dout, block, space_.dv, h_.dv);
    GiveSums(space_.ds, space_.q, block, space_.dk, h_.dk);
  }

  // S^T and dP^T of some keys and queries become P^T and dS^T, in rows, and dS^T by pairs of keys.
  void GiveDs(int64_t block, int64_t queries, const float* scores, const float* dp, char* by_keys) const {
    const int64_t first_query = queries * kBlock, row_bytes = n_.queries.row_bytes();
    for (int64_t i = 0; i < kBlock; i += 2) {
      for (int64_t j = 0; j < kBlock; j += kLanes) {
        const F32s lse = Load(space_.lse + first_query + j), dot = Load(space_.dots + first_query + j);
        U16s rounded[2];
        for (int64_t key = 0; key < 2; ++key) {
          const int64_t at = (i + key) * kBlock + j;
          F32s p = Exp2<4>(Load(scores + at) * factor_ - lse);
          F32s ds = p * (Load(dp + at) - dot) * s_.scale;
          const BlockRange lanes = Seeing(block * kBlock + i + key, first_query + j);
          if (lanes.begin > 0 || lanes.end < kLanes) {
            const I32s seen = Mask(SomeLanes{static_cast<int>(std::min(lanes.end, kLanes))}) &
                              ~Mask(SomeLanes{static_cast<int>(std::min(lanes.begin, kLanes))});
            p = seen ? p : Splat(0);
            ds = seen ? ds : Splat(0);
          }
          const int64_t to = (i + key) * row_bytes + (first_query + j) * static_cast<int64_t>(sizeof(BFloat16));
          Store(reinterpret_cast<BFloat16*>(space_.p + to), p);
          rounded[key] = Narrow(ds, static_cast<const BFloat16*>(nullptr));
          *reinterpret_cast<U16sUnaligned*>(space_.ds + to) = rounded[key];
        }
        char* const pairs = by_keys + j / kTileSide * kTileBytes + i / 2 * kTileRowBytes;
        Store(reinterpret_cast<float*>(pairs) + j % kTileSide, (F32s)PairsOf(rounded[0], rounded[1]));
      }
    }
  }
  // Which of the queries from `query` on see the key.
  BlockRange Seeing(int64_t key, int64_t query) const {
    if (key >= s_.keys) return {0, 0};
    return {s_.causal ? std::max<int64_t>(0, key - query) : 0,
            s_.window > 0 ? std::max<int64_t>(0, key + s_.window - query) : kLanes};
  }

  // The sums over all queries that see the block of keys, of its rows of P^T or dS^T. They go on in `kept` until the
  // last head of the group.
  void GiveSums(const char* rows, const char* by_queries, int64_t block, float* kept, BFloat16* to) const {
    const bool is_last = member_ + 1 == s_.group;
    const BlockRange seen_by = QueriesOf(s_, n_, block);
    const int64_t keys = std::min(kBlock, s_.keys - block * kBlock);
    const TilePair a = TilesOfRows(rows + seen_by.begin * kTileRowBytes, n_.queries.row_bytes());
    alignas(64) float sums[kBlock * kBlock];
    for (int64_t c = 0; c < n_.d; ++c) {
      float* const so_far = kept + (block * n_.d + c) * kBlock * kBlock;
      if (member_ == 0) {
        ZeroSums();
      } else {
        LoadSums(so_far, kBlock);
      }
      MultiplyBlock(a, PackedTiles(by_queries + (c * n_.queries.blocks + seen_by.begin) * kStepBytes),
                    seen_by.end - seen_by.begin);
      StoreSums(is_last ? sums : so_far, kBlock);
      for (int64_t i = 0; is_last && i < keys; ++i) {
        StoreLine<false>(to + (block * kBlock + i) * s_.kv_columns + c * kBlock, sums + i * kBlock);
      }
    }
  }

  // dQ^T += K^T dS^T of the blocks of keys from `first` to `last`; what has all its keys goes out.
  void AddDq(int64_t first, int64_t last) const {
    alignas(64) float sums[kBlock * kBlock];
    for (int64_t queries = 0; queries < n_.queries.blocks; ++queries) {
      const BlockRange seen = KeysOf(s_, n_, queries);
      const int64_t begin = std::max(first, seen.begin), end = std::min(last, seen.end);
      if (begin >= end) continue;
      const bool is_last = end == seen.end;
      for (int64_t c = 0; c < n_.d; ++c) {
        float* const kept = space_.dq + (queries * n_.d + c) * kBlock * kBlock;
        if (begin == seen.begin) {
          ZeroSums();
        } else {
          LoadSums(kept, kBlock);
        }
        const int64_t at = queries * n_.keys_of_dq() + begin - first;
        MultiplyBlock(PackedTiles(space_.k + (c * n_.keys.blocks + begin) * kStepBytes),
                      PackedTiles(space_.ds_by_keys + at * kStepBytes), end - begin);
        StoreSums(is_last ? sums : kept, kBlock);
        if (is_last) StoreTransposed(sums, queries, c);
      }
    }
  }

  void StoreTransposed(const float* sums, int64_t queries, int64_t c) const {
    const int64_t rows = std::min(kBlock, s_.tokens - queries * kBlock);
    BFloat16* const to = h_.dq + queries * kBlock * s_.columns + c * kBlock;
    for (int64_t row = 0; row < kBlock; row += kLanes) {  // of d
      for (int64_t i = 0; i < rows; i += kLanes) {
        F32s tile[kLanes];
        for (int64_t j = 0; j < kLanes; ++j) tile[j] = Load(sums + (row + j) * kBlock + i);
        Transpose(tile);
        for (int64_t j = 0; j < std::min(kLanes, rows - i); ++j) Store(to + (i + j) * s_.columns + row, tile[j]);
      }
    }
  }

  const AttentionShape& s_;
  const AttentionHead<BFloat16>& h_;
  const int64_t member_;
  const Blocks n_;
  const BackwardSpace& space_;
  const float factor_;
};

// body(head, member, ahead, scratch) for each head that sees keys, group by group, by threads that have as many bytes
// of scratch each. REQUIRES: all heads of a group do, or none.
template <typename Body>
void ForEachHead(const KernelArgs& args, const AttentionShape& s, size_t scratch_bytes, const Body& body) {
  const int64_t groups = s.end_group() - s.first_group();  // of a sample
  ParallelForFree(s.batch * groups, 1, args.threads, [&](int64_t begin, int64_t end, int thread) {
    const Tiles::Scope scope;
    char* const scratch = static_cast<char*>(args.workspace) + static_cast<size_t>(thread) * scratch_bytes;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = (task / groups * s.kv_heads + s.first_group() + task % groups) * s.group;
      const int64_t last = first + s.group + (task + 1 < end ? 1 : 0);  // what is looked ahead to
      for (int64_t head = first; head < first + s.group; ++head)
        body(head, head - first, Ahead(s, head, last), scratch);
    }
  });
}

}  // namespace

bool SuitsTiles(const AttentionShape& s) { return s.d > 0 && s.d % kTileTerms == 0 && s.tokens > 0 && s.keys > 0; }

size_t ForwardTileScratch(const AttentionShape& s) { return ForwardSpace(s, Blocks(s), nullptr).size; }
size_t BackwardTileScratch(const AttentionShape& s) { return BackwardSpace(s, Blocks(s), nullptr).size; }

const char* AttentionOnTiles(const KernelArgs& args) {
  const AttentionShape s(args.in[0], args.in[1], *args.attrs);
  ForEachHead(args, s, ForwardTileScratch(s), [&](int64_t head, int64_t member, const Ahead& ahead, char* scratch) {
    const int64_t at = s.HeadAt(head), kv_at = s.KvHeadAt(head / s.group);
    const Forward h = {args.in[0].as<const BFloat16>() + at, args.in[1].as<const BFloat16>() + kv_at,
                       args.in[2].as<const BFloat16>() + kv_at, args.out[0].as<BFloat16>() + at,
                       args.out[1].as<float>() + head * s.tokens};
    const Blocks n(s);
    const ForwardSpace space(s, n, scratch);
    if (member == 0) {
      PackAlongD(n.keys, n.d, h.k, s.kv_columns, space.k);
      PackAlongRows(n.keys, s.d, h.v, s.kv_columns, space.v);
    }
    ForwardTileHead(s, h, ahead, space);
  });
  return nullptr;
}

const char* AttentionGradOnTiles(const KernelArgs& args) {
  const AttentionShape s(args.in[1], args.in[2], *args.attrs);
  const float* const dlse = AttentionScores(args, 1).dlse;
  ForEachHead(args, s, BackwardTileScratch(s), [&](int64_t head, int64_t member, const Ahead& ahead, char* scratch) {
    const AttentionHead<BFloat16> h = GradientHead<BFloat16>(args, s, dlse, head);
    const BackwardSpace space(s, Blocks(s), scratch);
    TileHeadGradient(s, h, member, space).Run(ahead);
  });
  return nullptr;
}

}  // namespace oneflow::cpu

#endif
