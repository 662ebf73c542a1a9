// Codecs: how the gradient of a variable is summed along an axis without moving all of it. A codec writes the
// exchange as ordinary ops between the addends of the ranks and the sum that all of them use: layouts, transfers,
// prices and proofs follow as for any other ops.
//
//   PowerSGD      addends [n,m] P ──► P Q ──► all-reduce [n,r] ──► orthonormal ──► all-reduce [m,r] ──► sum [n,m] B
//   top-k         addends as rows [W,nm] S(0) ──► (value, index) [W,k] ──► all-gather ──► added up [nm] B
//   quantised     addends as rows ──► levels [W,buckets] S(0) ──► all-to-all S(1) ──► added up [buckets] S(0)
//                 ──► levels again ──► all-gather ──► sum [nm] B
//   random-k      addends [nm] P ──► those that are drawn [k] P ──► all-reduce ──► in their places, times nm / k
//   perm-k        addends as rows ──► those drawn for each rank [W,k] S(0) ──► all-gather ──► added up [nm] B
//
// Where the number of a matrix is chosen while the job runs, a code has room for the largest candidate, and what is
// used of it travels as ragged rows: elements of a rank, columns of a factor, or bytes of a bucket.
//
// PowerSGD and top-k add what they leave out of a step to the next one (error feedback), so that
//
//   everything that was used + the error that is left = everything that was given
//
// The others need no state: what they give is the sum on average over their draws.
//
// Codecs are a table: a new one is a file here and a row in codecs.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/options.h"
#include "oneflow_core/graph_editor.h"

namespace oneflow {

// How many elements of a rank, columns of a factor, or bits of a level, a code has.
struct CodeSize {
  int64_t room = 0;  // Codec::count of the largest candidate; 0 of a codec without it
  Tensor used = {};  // i32[], how many travel; invalid: all
  // f32[ranks], 1 for a rank that sends a code, 0 for others; invalid: all send. At most one of both is valid.
  Tensor senders = {};
};

struct Codec;

// The exchange of one gradient, as a codec writes it. State that it declares belongs to the variable and is saved in
// checkpoints. Tensors are f32; [n,m] is the gradient as a matrix, its first dimension by all others.
class CodecStep {
 public:
  // Borrows the editor, whose scope is the variable's. `addends`: the gradient [n,m], whose addends lie on the `ranks`
  // ranks along `axis`. `whole`: how it lies along the other axes.
  CodecStep(GraphEditor& editor, const Tensor& addends, std::string axis, int64_t ranks, SbpHint whole,
            const CompressOptions& options, const CodeSize& size);

  const Tensor& addends() const { return addends_; }
  // By the codec: the sum of rows [ranks,n,m], of which every rank has its own, instead of the addends.
  Tensor SumOf(const Codec& codec, const Tensor& rows);
  int64_t ranks() const { return ranks_; }
  const CompressOptions& options() const { return options_; }
  int64_t rows() const { return addends_.shape()[0]; }
  int64_t columns() const { return addends_.shape()[1]; }
  int64_t room() const { return size_.room; }
  // The inverse of a rank's probability to send a code.
  double turns() const;

  // State that all ranks have alike.
  Tensor State(absl::string_view suffix, const Shape& shape, absl::string_view init);
  // State [ranks, shape...], zeros at first, of which every rank has its own row. `split`: whether it is split along
  // the other axes as the gradient is; otherwise it is whole there.
  Tensor OwnState(absl::string_view suffix, const Shape& shape, bool split);
  // State that lies as the sum [n,m] does, zeros at first.
  Tensor SumState(absl::string_view suffix, const Shape& shape);
  // What a state holds after the step.
  void Set(const Tensor& state, const Tensor& value);

  // x as [ranks, x...], a row of each rank: its own addend.
  Tensor AsRows(const Tensor& x);
  // x, not added up. `split`: along the other axes it lies as the gradient does; otherwise it is whole there.
  Tensor InAddends(const Tensor& x, bool split);
  // x, of a row for each rank, with a part of all rows on each rank.
  Tensor Across(const Tensor& x);
  // Of x, of a row for each rank, its own row on each.
  Tensor OwnRows(const Tensor& x);
  // x with all rows on all ranks.
  Tensor Everywhere(const Tensor& x);
  // The same of x [ranks, room], of whose columns those that are used travel: behind them are zeros. Of a rank that
  // sends no code none is used.
  Tensor EverywhereUsed(const Tensor& x);
  // x [ranks, room] with zeros behind the columns that are used.
  Tensor OnlyUsed(const Tensor& x);
  // Of codes u8[.., room * unit] the bytes of what is used, `unit` for each: the others do not travel.
  Tensor KeepUsedBytes(const Tensor& codes, int64_t unit);
  // What KeepUsedBytes() gave, with zeros for the others again.
  Tensor Padded(const Tensor& codes);
  // `inputs` of an op that takes what is used as its last one, where that is not all.
  std::vector<Tensor> WithUsed(std::vector<Tensor> inputs) const;
  // The sum of the addends x [n, room], of whose columns those that are used travel: behind them are zeros.
  Tensor SumUsedColumns(const Tensor& x);
  // x, which a node of this step makes: along the axis it is made like that, and not moved first. Otherwise selection
  // may find it cheaper to move small gradients whole.
  Tensor Made(const Tensor& x, Sbp sbp);

  // By a codec that can tell: what each rank has sent, of elements [ranks, n m], as those who read it understand it.
  void set_sent(const Tensor& x) { sent_ = x; }
  const Tensor& sent() const { return sent_; }

  GraphEditor& editor() { return editor_; }

 private:
  SbpHint Along(Sbp sbp, bool split, int shift) const;
  bool AllTravel() const { return !size_.used.valid() && !size_.senders.valid(); }
  Tensor KeepUsed(const Tensor& x);

  GraphEditor& editor_;
  Tensor addends_;
  const std::string axis_;
  const int64_t ranks_;
  const SbpHint whole_;
  const CompressOptions& options_;
  const CodeSize size_;
  Tensor sent_;
  Tensor counts_;  // of columns that are used, by rank: all ranks have them, so no counts travel
};

struct Codec {
  absl::string_view name;       // "POWERSGD", as in a job config
  absl::string_view parameter;  // what its number, CompressOptions::parameter, is: "rank"
  double least, most;           // that the number may be
  bool is_whole;                // the number is whole
  // Bytes that an all-reduce of the codes of an [n,m] matrix is of, on so many ranks. Where that is not less than the
  // bytes of the matrix, the gradient is summed exactly.
  double (*bytes)(double n, double m, double ranks, const CompressOptions& options);
  // The sum over all ranks, as it is used; [n,m].
  Tensor (*sum)(CodecStep& step);
  // How many elements of a rank, columns of a factor or bits an [n,m] matrix takes. Null, as `errors`: the number of
  // such a code cannot be chosen while the job runs.
  int64_t (*count)(double n, double m, const CompressOptions& options) = nullptr;
  // Squared errors, f32[counts], that codes of so many would make of x [n,m], which is whole on every rank. The counts
  // rise.
  Tensor (*errors)(GraphEditor& editor, const Tensor& x, const std::vector<int64_t>& counts,
                   const CompressOptions& options) = nullptr;
  bool keeps_errors = false;  // what a step leaves out is in the next one
};

// |x|^2 less the sums of the first counts[i] of `squares`, f32[counts]: what is left of x without so many parts of it.
Tensor SquaresBeyond(const Tensor& x, const Tensor& squares, const std::vector<int64_t>& counts);

absl::Span<const Codec> Codecs();
// InvalidArgument, with the names of all, if there is none of that name.
absl::StatusOr<const Codec*> FindCodec(absl::string_view name);

// --- one of each file
Codec PowerSgdCodec();             // power_sgd.cc
Codec TopKCodec();                 // top_k.cc
Codec QuantCodec();                // quant.cc
Codec RandKCodec(), PermKCodec();  // rand_k.cc

}  // namespace oneflow
