#include "oneflow_core/nn/recurrence.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow::nn {
namespace {

// Of an LSTM or a GRU.
struct CellKind {
  const char* name;
  int64_t gates;
  bool has_cells;
};
constexpr CellKind kLstm = {"lstm", 4, true}, kGru = {"gru", 3, false};

// Null, or what is wrong.
absl::Status Check(const CellKind& kind, const Tensor& x, absl::string_view name, const RecurrenceOptions& options,
                   const RecurrentStates& initial) {
  const std::string where = absl::StrCat(kind.name, " '", name, "': ");
  if (x.shape().rank() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "the input must be [batch, time, width] but is ", x.type().ToString()));
  }
  if (options.width < 1 || options.layers < 1 || options.chunk < 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, "width ", options.width, ", layers ", options.layers,
                                                   " and chunk ", options.chunk, " must be positive"));
  }
  const auto layers = static_cast<size_t>(options.layers), h = initial.h.size(), c = initial.c.size();
  if ((h != 0 && h != layers) || (c != 0 && (c != layers || !kind.has_cells))) {
    return absl::InvalidArgumentError(absl::StrCat(where, "initial states of ", h, " layers, and cells of ", c,
                                                   ", are not those of ", layers, " layers"));
  }
  return absl::OkStatus();
}

// What the states of a layer are at work with.
struct Layer {
  Tensor weight, bias, h, c;
};

// One op: gates [b,t,gates width] to states [b,t,width], which also replace those of the layer.
Tensor Steps(const CellKind& kind, const Tensor& gates, Layer& layer, std::source_location loc) {
  LstmStates states;
  if (kind.has_cells) {
    states = oneflow::Lstm(gates, layer.weight, layer.bias, layer.h, layer.c, loc);
  } else {
    states.y = oneflow::Gru(gates, layer.weight, layer.bias, layer.h, loc);
  }
  if (!states.y.valid()) return Tensor();
  const int64_t b = states.y.shape()[0], t = states.y.shape()[1], width = states.y.shape()[2];
  const auto last = [&](const Tensor& x) { return Reshape(Slice(x, 1, t - 1, 1, loc), {b, width}, loc); };
  layer.h = last(states.y);
  if (kind.has_cells) layer.c = last(states.cells);
  return states.y;
}

Tensor RunLayer(const CellKind& kind, const Tensor& x, const RecurrenceOptions& options, Layer& layer,
                std::source_location loc) {
  GraphBuilder& b = *x.builder();
  const int64_t columns = kind.gates * options.width, time = x.shape()[1];
  const std::string init =
      options.init.empty() ? Uniform(1 / std::sqrt(static_cast<double>(options.width))) : options.init;
  const Tensor gates = Cast(Linear(x, "x", {.width = columns, .init = init}, loc), DType::kFloat32, loc);
  layer.weight = b.Variable("h/weight", {DType::kFloat32, {options.width, columns}}, init, {}, true, loc);
  layer.bias = b.Variable("h/bias", {DType::kFloat32, {columns}}, "zeros", {}, true, loc);
  if (!gates.valid()) return Tensor();
  if (options.chunk == 0 || options.chunk >= time) return Steps(kind, gates, layer, loc);
  std::vector<Tensor> chunks;
  for (int64_t first = 0; first < time; first += options.chunk) {
    const int64_t steps = std::min(options.chunk, time - first);
    chunks.push_back(Steps(kind, Slice(gates, 1, first, steps, loc), layer, loc));
  }
  return Concat(chunks, 1, loc);
}

Recurrence Run(const CellKind& kind, const Tensor& x, absl::string_view name, const RecurrenceOptions& options,
               const RecurrentStates& initial, std::source_location loc) {
  if (!x.valid()) return {};
  GraphBuilder& b = *x.builder();
  if (absl::Status status = Check(kind, x, name, options, initial); !status.ok()) {
    b.Fail(std::move(status));
    return {};
  }
  const GraphBuilder::Scope scope(b, name);
  const auto state = [&](const std::vector<Tensor>& given, int64_t layer) {
    if (!given.empty()) return given[layer];
    return Constant(b, {DType::kFloat32, {x.shape()[0], options.width}}, 0, loc);
  };
  Recurrence result = {x, {}};
  for (int64_t i = 0; i < options.layers && result.y.valid(); ++i) {
    const GraphBuilder::Scope of_layer(b, absl::StrCat("l", i));
    Layer layer = {.h = state(initial.h, i)};
    if (kind.has_cells) layer.c = state(initial.c, i);
    if (i > 0) result.y = Dropout(result.y, options.dropout, loc);
    result.y = RunLayer(kind, result.y, options, layer, loc);
    result.last.h.push_back(layer.h);
    if (kind.has_cells) result.last.c.push_back(layer.c);
  }
  return result;
}

}  // namespace

Recurrence Lstm(const Tensor& x, absl::string_view name, const RecurrenceOptions& options,
                const RecurrentStates& initial, std::source_location loc) {
  return Run(kLstm, x, name, options, initial, loc);
}

Recurrence Gru(const Tensor& x, absl::string_view name, const RecurrenceOptions& options,
               const RecurrentStates& initial, std::source_location loc) {
  return Run(kGru, x, name, options, initial, loc);
}

}  // namespace oneflow::nn
