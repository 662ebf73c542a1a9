// Op definitions: an op is its mathematics. Its factor rule says which dimensions of its operands are the same factor,
// and from that sbp/ derives every signature; `infer` gives the output types; `grad` writes the gradient as more graph.
//
// Factor rules. Letters name dimensions, operands are separated by commas, "..." stands for any number of leading
// dimensions and broadcasts as in NumPy (an operand whose dimension is 1 or absent does not carry the factor). A letter
// that no output has is summed. Marks follow after ';':
//
//   "...mk,kn->...mn; linear 0; linear 1"    P in operand 0 alone, or in operand 1 alone, passes to every output
//   "...,...->...; linear 0 1"               P passes when operands 0 and 1 are both P        (add)
//   "...c->...c; whole c"                    c must not be split                              (softmax)
//   "mk->m; max k"                           splitting k gives P(max)                         (reduce_max)
//   ",...->..."                              operand 0 is a scalar
//   "ab->a1"                                 1 is a dimension of size 1 that carries no factor
//
// Where the text depends on attributes or on the number of operands, `rule_for` writes it. An op with neither is
// irregular and has a rule of its own in sbp/rules/, or is made of others and has theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/shape.h"
#include "oneflow_core/status.h"

namespace oneflow {

class GradContext;
struct FusedForms;

// What type inference sees of a node.
struct InferContext {
  absl::Span<const TensorType> inputs;
  const AttrMap& attrs;
  // These are a rank's parts of the tensors, with `shard_attrs`: parts may be empty where a tensor must not be.
  bool of_shards = false;
};

// What an op is to the compiler. Kinds other than kCompute have a meaning of their own to it.
enum class OpKind : uint8_t {
  kCompute,
  kVariable,    // state that outlives the step
  kData,        // reads a sample: a pure function of the position in the data, another one in every micro-batch
  kConstant,    // a pure function of nothing
  kAnnotation,  // a wish for where and how a value lies, or for no gradient (`grad` is null); computes nothing
  kBoxing,      // moves a value to where and how it is to lie
  kAccumulate,  // the sum over the micro-batches of a step
  kFetch,       // hands a value to the host
  kCast,        // the same numbers in another element type
  kCall,        // a function of the host (actor/host_function.h)
  kLoad,        // copies a value that lies in a tier (tiers.h) to its device
  kStore,       // copies a value from its device to a tier: into a variable there, or into a new value
};

struct OpDef;
// Whether an act of the op takes whole tensors on one rank: it hands them to the host, or is a call without a rule.
bool RunsOnOneRank(const OpDef& op);

// Pure functions of the position in the data: whoever needs one may make a copy of it.
inline bool IsSource(OpKind kind) { return kind == OpKind::kData || kind == OpKind::kConstant; }

// The floating type in which an op computes if the job or the model asks for a narrow one
// (compiler/passes/mixed_precision.cc).
enum class Precision : uint8_t {
  kFull,     // always f32: sums, statistics, losses, ops that overflow or cancel
  kFollow,   // the type of its inputs, a narrow one if they differ: works element by element, or moves elements
  kCompute,  // the one that is asked for: products
};

// How an op treats ragged operands (oneflow_core/ragged.h).
enum class RaggedUse : uint8_t {
  kByRule,  // by its rule: rows stay rows, and sums that are linear in them take the filled rows; it refuses all else
  kSums,    // by its rule it sums the filled rows; where rows stay, zeros follow the filled ones
  kPads,    // it reads padded rows, because rows of zeros do not change its result
  kRows,    // rows stay rows; it refuses to reduce them, because the result depends on their number
  kOwn,     // its `infer` and its kernels handle them
};

// Of an op on queries and keys, where both lie in parts on a ring of ranks (compiler/passes/ring_attention.cc): whose
// tokens an operand has.
enum class RingSide : uint8_t { kQueries, kKeys };

struct OpDef {
  std::string name;
  OpKind kind = OpKind::kCompute;
  std::string rule;
  // The rule's text where it depends on more than the op; null: `rule` is it. REQUIRES: the operands passed `infer`.
  std::string (*rule_for)(absl::Span<const TensorType> inputs, const AttrMap& attrs) = nullptr;
  // The output types. InvalidArgument, naming both values, if the inputs or attributes do not fit together.
  std::function<absl::StatusOr<std::vector<TensorType>>(const InferContext&)> infer = nullptr;
  // An op on the shards of a rank is the same op on smaller tensors, so `infer` also gives the types of the output
  // shards. If attributes contain sizes, this gives the attributes for the shards; null: they stay.
  // REQUIRES: the whole tensors have passed `infer`, and shards have as many dimensions as their tensors.
  std::function<AttrMap(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs)>
      shard_attrs = nullptr;
  // Adds the gradient's nodes; null: no gradient flows through this op. Unimplemented if some attribute has none.
  absl::Status (*grad)(GradContext&) = nullptr;
  // Floating point operations of one act on tensors of these types; null: one per output element. Ask FlopsOf().
  std::function<double(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap& attrs)>
      flops = nullptr;
  // Inputs that are overwritten; each must be the value of a `variable` node, or what was loaded from one.
  std::vector<int> mutates;
  // Inputs of which a step of several micro-batches takes the mean over them.
  std::vector<int> averages;
  // Kept although nothing reads its outputs (fetch; ops with `mutates` are kept in any case).
  bool has_effect = false;
  // Draws random numbers. The compiler sets the integer attributes `seed` (the job's) and `key` (a fingerprint of the
  // string attribute `key` if set, else of the node's name), so that forward and gradient draw the same numbers.
  bool random = false;
  // Fails depending on the values of its inputs: its kernel waits for them on the host. So its launch cannot be
  // captured, and it reads values of a step only.
  bool looks_at_values = false;
  // {input, output}: the output may occupy the input's memory when nothing else reads the input later.
  std::vector<std::pair<int, int>> in_place;
  // Adds up any number of inputs, in any order and grouping.
  bool is_sum = false;
  // Gives what each rank along an axis has, an addend or a tensor of its own, as a row of one tensor.
  bool makes_rows = false;
  // Input 0 divided by input 1: over the micro-batches of a step the sum of the first by that of the second.
  bool is_step_mean = false;
  // Each element of the one output is a function of the elements at the same place in the inputs, so the op can be
  // fused with its readers in one pass over memory (elementwise.h). Every device has kernels for floats.
  bool is_elementwise = false;
  Precision precision = Precision::kFull;
  // Inputs that are always f32: parameters and statistics beside elements of a narrow type.
  std::vector<int> full_inputs = {};
  // Takes the attribute `out_dtype`, the floating type of its output; the default is that of its inputs. It sums in
  // f32, so an f32 output is not rounded.
  bool has_out_dtype = false;
  // The op that computes the same with input 1, a weight of two dimensions, in panels (packed.h); empty: none.
  // `transpose_b` says how the weight lies, and is no attribute of the other.
  std::string packed;
  // By operand, inputs first: whose tokens it has. An act knows from the place of its operands which tokens these
  // are, and takes the attribute `share`: 1 and 2 mean the first and the second half of its heads. Null: it is computed
  // in no ring.
  std::vector<RingSide> (*ring)(size_t inputs, size_t outputs) = nullptr;
  // Of such an op: what makes one of its outputs over some keys and those over others; empty: they are addends.
  std::string merged_by;
  // Puts a weight into panels: the whole output, and every rank's, is of whole panels.
  bool packs = false;
  RaggedUse ragged = RaggedUse::kByRule;
  // The operands that may lie in blocks of channels (memory_layout.h), on devices with kernels for that. By operand,
  // inputs first: its group, whose operands all lie alike, or -1 if it is always row-major. Null: all are -1.
  // REQUIRES: the operands are those of `infer`.
  std::function<std::vector<int>(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                                 const AttrMap& attrs)>
      blocks = nullptr;
  // Of an op that is made of others: the rows of the table of fusions that define it (fused_form.h). It has no rule.
  std::shared_ptr<const FusedForms> forms = nullptr;
};

// Floating point operations of one act of the op on tensors of these types.
double FlopsOf(const OpDef& op, absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
               const AttrMap& attrs);

// Whether its kernels take elements of a narrow floating type.
inline bool ComputesNarrow(const OpDef& op) { return op.precision != Precision::kFull || op.kind == OpKind::kCast; }

// By operand, inputs first, as OpDef::blocks; all -1 where that is null.
std::vector<int> BlockGroups(const OpDef& op, absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                             const AttrMap& attrs);
// Checks that the op's kernels take operands in these layouts, in the order of BlockGroups. InvalidArgument, naming the
// operand, if one in blocks is in no group, or the operands of a group do not lie alike.
absl::Status CheckLayouts(absl::Span<const int> groups, absl::Span<const MemoryLayout> layouts);

// The ops that exist; built once by main() through StandardOps() (oneflow_core/ops/ops.h) and passed down. Immutable
// afterwards.
class OpRegistry {
 public:
  // REQUIRES: no op of that name was added before.
  void Add(OpDef def);
  // Null if there is no such op.
  const OpDef* Find(absl::string_view name) const;
  // InvalidArgument "no op 'x'" instead of null.
  absl::StatusOr<const OpDef*> Get(absl::string_view name) const;
  // The kind of an op; kCompute if there is no such op.
  OpKind KindOf(absl::string_view name) const;
  bool Is(absl::string_view name, OpKind kind) const { return KindOf(name) == kind; }
  const std::map<std::string, OpDef, std::less<>>& all() const { return ops_; }

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

}  // namespace oneflow
