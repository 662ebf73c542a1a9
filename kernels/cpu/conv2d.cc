// conv2d and its two gradients on oneDNN. The library is fast in its own blocked layouts only, so operands are
// reordered into what it asks for and the result back, in the workspace:
//
//   x (nchw) --reorder--> blocked --+
//                                   +--> convolution --> blocked --reorder--> y (nchw)
//   k (oihw) --reorder--> blocked --+
//
// An operand that lies as the library wants it skips its reorder. In blocks of channels x and y do where vectors are of
// sixteen floats, so that there only kernels are moved.
//
// On processors with tiles bf16 in blocks goes another way, past the library (tile_conv2d.h).
//
// Where it is faster, sums of floats under 3x3 kernels are made by Winograd's way.
//
// 16-bit floats are convolved as floats, but bf16 as bf16 where the processor is faster so (narrow_product.h) and the
// library takes the shapes. Of bf16 the reorders do the conversion; f16 is none of the library's types, so that f16
// operands are widened in the workspace first and a result is narrowed there last.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "kernels/copy.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/narrow_product.h"
#include "kernels/cpu/reorder.h"
#include "kernels/cpu/tile_conv2d.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace oneflow::cpu {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;
using Tag = memory::format_tag;

// Immutable, without threads or memory of its own.
const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

constexpr size_t kAlignment = 64;
size_t Aligned(size_t num_bytes) { return (num_bytes + kAlignment - 1) / kAlignment * kAlignment; }

// One operand of a primitive: how it lies in our tensor and how the primitive wants it.
struct Operand {
  int argument = 0;  // DNNL_ARG_...
  memory::desc plain, wanted;
  dnnl::reorder reorder;  // empty where plain is wanted
  bool is_moved() const { return plain != wanted; }
};

// Bytes of an operand as floats, where the library has no such type.
size_t WideBytes(const TensorArg& x) {
  return x.dtype == DType::kFloat16 ? Aligned(static_cast<size_t>(x.count) * sizeof(float)) : 0;
}

// A primitive with its reorders, for operands in[0], in[1] and out[0]; or kernels of our own.
struct Job {
  std::unique_ptr<TileConv2d> on_tiles = nullptr;
  dnnl::primitive primitive;
  Operand operands[3];
  memory::desc scratchpad;

  size_t WorkspaceBytes(const KernelArgs& args) const {
    if (on_tiles != nullptr) return on_tiles->WorkspaceBytes();
    size_t total =
        Aligned(scratchpad.get_size()) + WideBytes(args.in[0]) + WideBytes(args.in[1]) + WideBytes(args.out[0]);
    for (const Operand& operand : operands) total += operand.is_moved() ? Aligned(operand.wanted.get_size()) : 0;
    return total;
  }

  void Run(const KernelArgs& args) const {
    if (on_tiles != nullptr) return on_tiles->Run(args);
    dnnl::stream stream(CpuEngine());
    char* free = static_cast<char*>(args.workspace);
    const auto take = [&](const memory::desc& desc) {
      const memory result(desc, CpuEngine(), free);
      free += Aligned(desc.get_size());
      return result;
    };
    const TensorArg* const tensors[] = {&args.in[0], &args.in[1], &args.out[0]};
    void* data[3];
    for (int i = 0; i < 3; ++i) {
      data[i] = WideBytes(*tensors[i]) > 0 ? free : tensors[i]->data;
      free += WideBytes(*tensors[i]);
      if (i == 2 || data[i] == tensors[i]->data) continue;
      Convert(tensors[i]->as<const Float16>(), static_cast<float*>(data[i]), tensors[i]->count);
    }
    std::unordered_map<int, memory> bound = {{DNNL_ARG_SCRATCHPAD, take(scratchpad)}};
    memory plain[3], moved[3];
    for (int i = 0; i < 3; ++i) {
      plain[i] = memory(operands[i].plain, CpuEngine(), data[i]);
      moved[i] = operands[i].is_moved() ? take(operands[i].wanted) : plain[i];
      bound[operands[i].argument] = moved[i];
      if (i < 2 && operands[i].is_moved()) operands[i].reorder.execute(stream, plain[i], moved[i]);
    }
    primitive.execute(stream, bound);
    if (operands[2].is_moved()) operands[2].reorder.execute(stream, moved[2], plain[2]);
    stream.wait();
    const TensorArg& out = args.out[0];
    if (data[2] != out.data) Convert(static_cast<const float*>(data[2]), out.as<Float16>(), out.count);
  }
};

Operand MakeOperand(int argument, const memory::desc& plain, const memory::desc& wanted, bool is_output) {
  Operand operand = {argument, plain, wanted, {}};
  if (operand.is_moved()) {
    operand.reorder = dnnl::reorder(is_output ? dnnl::reorder::primitive_desc(CpuEngine(), wanted, CpuEngine(), plain)
                                              : dnnl::reorder::primitive_desc(CpuEngine(), plain, CpuEngine(), wanted));
  }
  return operand;
}

// How an operand of samples lies; a kernel, or its gradient, is row-major.
Tag TagOf(const TensorArg& x) { return x.in_blocks() ? Tag::nChw16c : Tag::nchw; }

// How the operand lies in our memory, or in the workspace if the library has no such type.
memory::desc Plain(const TensorArg& x, Tag tag) {
  const bool is_bf16 = x.dtype == DType::kBFloat16;
  return {memory::dims(x.dims, x.dims + x.rank), is_bf16 ? memory::data_type::bf16 : memory::data_type::f32, tag};
}

// What the three ops share.
struct Geometry {
  // `narrow`: bf16 is convolved as such. `winograd`: where that is faster, if the library has it.
  // x and k are those of the convolution: k has the channels of one group.
  Geometry(const AttrMap& attrs, const TensorArg& x, const TensorArg& k, bool narrow, bool winograd)
      : narrow(narrow),
        winograd(winograd),
        groups(x.dims[1] / k.dims[1]),
        strides(2, attrs.Int("stride", 1)),
        dilates(2, attrs.Int("dilation", 1) - 1),
        padding(2, attrs.Int("padding")) {
    primitive.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  // As the library wants it.
  memory::desc Any(const TensorArg& x) const { return Any(x, narrow && x.dtype == DType::kBFloat16); }
  memory::desc Any(const TensorArg& x, bool is_bf16) const {
    return {memory::dims(x.dims, x.dims + x.rank), is_bf16 ? memory::data_type::bf16 : memory::data_type::f32,
            Tag::any};
  }
  // Of a kernel [o,c,i,j], which the library sees as [groups,o/groups,c,i,j] where there are several.
  memory::desc AnyKernel(const TensorArg& k) const { return AnyKernel(k, narrow && k.dtype == DType::kBFloat16); }
  memory::desc AnyKernel(const TensorArg& k, bool is_bf16) const {
    return {KernelDims(k), is_bf16 ? memory::data_type::bf16 : memory::data_type::f32, Tag::any};
  }
  memory::desc PlainKernel(const TensorArg& k) const {
    return {KernelDims(k), Plain(k, Tag::oihw).data_type(), groups == 1 ? Tag::oihw : Tag::goihw};
  }
  memory::dims KernelDims(const TensorArg& k) const {
    if (groups == 1) return {k.dims, k.dims + k.rank};
    return {groups, k.dims[0] / groups, k.dims[1], k.dims[2], k.dims[3]};
  }

  // Of a convolution with k that gives y. Winograd's way makes 4x4 outputs at a time: the library's takes half the time
  // of the direct one where there are enough of them and of channels (kernels/NOTES.md). Its own choice (`auto`) asks
  // for 16 samples or more, and for no channels.
  dnnl::algorithm Algorithm(const TensorArg& k, const TensorArg& y) const {
    constexpr int64_t kFewestTiles = 128, kFewestChannels = 32;
    const int64_t tiles = y.dims[0] * ((y.dims[2] + 3) / 4) * ((y.dims[3] + 3) / 4);
    const bool suits = k.dims[2] == 3 && k.dims[3] == 3 && strides[0] == 1 && dilates[0] == 0 && groups == 1 &&
                       tiles >= kFewestTiles && std::min(k.dims[0], k.dims[1]) >= kFewestChannels;
    return winograd && suits ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
  }

  bool narrow, winograd;
  int64_t groups;
  memory::dims strides, dilates, padding;
  dnnl::primitive_attr primitive;
};

// The roles of in[0], in[1] and out[0] in each op, x being the convolution's input, k its kernel, y its output.
convolution_forward::primitive_desc ForwardDesc(const Geometry& g, const TensorArg& x, const TensorArg& k,
                                                const TensorArg& y) {
  return {{dnnl::prop_kind::forward_training, g.Algorithm(k, y), g.Any(x), g.AnyKernel(k), g.Any(y), g.strides,
           g.dilates, g.padding, g.padding},
          g.primitive,
          CpuEngine()};
}

// The forward one that a gradient's description is to name. All its operands are narrow, if any of the gradient's are:
// the library has none of bf16 by floats, though it has gradients of bf16 that are floats.
convolution_forward::primitive_desc HintDesc(const Geometry& g, const TensorArg& x, const TensorArg& k,
                                             const TensorArg& y) {
  const bool is_bf16 = g.narrow && (x.dtype == DType::kBFloat16 || y.dtype == DType::kBFloat16);
  return {{dnnl::prop_kind::forward_training, g.Algorithm(k, y), g.Any(x, is_bf16), g.AnyKernel(k, is_bf16),
           g.Any(y, is_bf16), g.strides, g.dilates, g.padding, g.padding},
          g.primitive,
          CpuEngine()};
}

Job ForwardJob(const KernelArgs& args, const Geometry& g) {
  const TensorArg &x = args.in[0], &k = args.in[1], &y = args.out[0];
  const auto pd = ForwardDesc(g, x, k, y);
  return {nullptr,
          convolution_forward(pd),
          {MakeOperand(DNNL_ARG_SRC, Plain(x, TagOf(x)), pd.src_desc(), false),
           MakeOperand(DNNL_ARG_WEIGHTS, g.PlainKernel(k), pd.weights_desc(), false),
           MakeOperand(DNNL_ARG_DST, Plain(y, TagOf(y)), pd.dst_desc(), true)},
          pd.scratchpad_desc()};
}

Job DgradJob(const KernelArgs& args, const Geometry& g) {
  const TensorArg &dy = args.in[0], &k = args.in[1], &dx = args.out[0];
  const convolution_backward_data::primitive_desc pd(
      {g.Algorithm(k, dy), g.Any(dx), g.AnyKernel(k), g.Any(dy), g.strides, g.dilates, g.padding, g.padding},
      g.primitive, CpuEngine(), HintDesc(g, dx, k, dy));
  return {nullptr,
          convolution_backward_data(pd),
          {MakeOperand(DNNL_ARG_DIFF_DST, Plain(dy, TagOf(dy)), pd.diff_dst_desc(), false),
           MakeOperand(DNNL_ARG_WEIGHTS, g.PlainKernel(k), pd.weights_desc(), false),
           MakeOperand(DNNL_ARG_DIFF_SRC, Plain(dx, TagOf(dx)), pd.diff_src_desc(), true)},
          pd.scratchpad_desc()};
}

Job WgradJob(const KernelArgs& args, const Geometry& g) {
  const TensorArg &x = args.in[0], &dy = args.in[1], &dk = args.out[0];
  const convolution_backward_weights::primitive_desc pd(
      {g.Algorithm(dk, dy), g.Any(x), g.AnyKernel(dk), g.Any(dy), g.strides, g.dilates, g.padding, g.padding},
      g.primitive, CpuEngine(), HintDesc(g, x, dk, dy));
  return {nullptr,
          convolution_backward_weights(pd),
          {MakeOperand(DNNL_ARG_SRC, Plain(x, TagOf(x)), pd.src_desc(), false),
           MakeOperand(DNNL_ARG_DIFF_DST, Plain(dy, TagOf(dy)), pd.diff_dst_desc(), false),
           MakeOperand(DNNL_ARG_DIFF_WEIGHTS, g.PlainKernel(dk), pd.diff_weights_desc(), true)},
          pd.scratchpad_desc()};
}

bool IsEmpty(const KernelArgs& args) {
  return args.in[0].count == 0 || args.in[1].count == 0 || args.out[0].count == 0;
}

using MakeJob = Job (*)(const KernelArgs& args, const Geometry& g);

// The convolution's input and its kernel among the operands of each op.
template <MakeJob kMake>
const TensorArg& InputOf(const KernelArgs& args) {
  return kMake == DgradJob ? args.out[0] : args.in[0];
}
template <MakeJob kMake>
const TensorArg& KernelOf(const KernelArgs& args) {
  return kMake == WgradJob ? args.out[0] : args.in[1];
}

// Library exceptions end here: null if it has no such convolution.
template <MakeJob kMake>
std::shared_ptr<Job> Make(const KernelArgs& args) {
  auto job = std::make_shared<Job>();
  if (IsEmpty(args)) return job;
  job->on_tiles = MakeTileConv2d(kMake == ForwardJob ? ConvOp::kForward
                                 : kMake == DgradJob ? ConvOp::kDgrad
                                                     : ConvOp::kWgrad,
                                 args);
  if (job->on_tiles != nullptr) return job;
  const bool is_faster = NarrowProduct::Fastest(DType::kBFloat16) == NarrowProduct::Way::kLibrary;
  struct Way {
    bool narrow, winograd;
  };
  for (const Way way : {Way{true, false}, Way{false, true}, Way{false, false}}) {  // of the first it lacks most
    if (way.narrow && !is_faster) continue;
    try {
      const TensorArg &x = InputOf<kMake>(args), &k = KernelOf<kMake>(args);
      return std::make_shared<Job>(kMake(args, Geometry(*args.attrs, x, k, way.narrow, way.winograd)));
    } catch (const dnnl::error&) {
      continue;
    }
  }
  return nullptr;
}

template <MakeJob kMake>
std::shared_ptr<void> Prepare(const KernelArgs& args) {
  return Make<kMake>(args);
}

// Makes the primitive once more; the library's cache has it when it is prepared afterwards.
template <MakeJob kMake>
size_t Workspace(const KernelArgs& args) {
  const std::shared_ptr<Job> job = Make<kMake>(args);
  return job == nullptr || IsEmpty(args) ? 0 : job->WorkspaceBytes(args);
}

const char* Run(const KernelArgs& args) {
  if (IsEmpty(args)) {  // no channels or no samples: an empty sum
    FillZero(args.out[0].data, static_cast<size_t>(args.out[0].count) * SizeOf(args.out[0].dtype));
    return nullptr;
  }
  try {
    static_cast<const Job*>(args.state)->Run(args);
  } catch (const dnnl::error&) {
    return "oneDNN convolution failed";
  }
  return nullptr;
}

}  // namespace

KernelList Conv2dKernels() {
  KernelList kernels;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    kernels.push_back({"conv2d", dtype, Run, Workspace<ForwardJob>, Prepare<ForwardJob>});
    kernels.push_back({"conv2d_dgrad", dtype, Run, Workspace<DgradJob>, Prepare<DgradJob>});
    kernels.push_back({"conv2d_wgrad", dtype, Run, Workspace<WgradJob>, Prepare<WgradJob>});
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32}) {
    kernels.push_back({"reorder", dtype, Reorder});
  }
  return kernels;
}

}  // namespace oneflow::cpu
