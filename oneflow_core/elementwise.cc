#include "oneflow_core/elementwise.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/attr_text.h"
#include "oneflow_core/line_reader.h"

namespace oneflow {
namespace {

using Kind = ElementwiseValue::Kind;

std::string ToString(const ElementwiseValue& value) {
  return absl::StrCat(std::string(1, static_cast<char>(value.kind)), value.index);
}

int Most(Kind kind) {
  switch (kind) {
    case Kind::kInput:
      return kMostElementwiseInputs;
    case Kind::kOutput:
      return kMostElementwiseOutputs;
    case Kind::kTemporary:
      return kMostElementwiseCalls;
  }
  return 0;
}

// "x0", "y3", "t12".
absl::StatusOr<ElementwiseValue> ReadValue(LineReader& line) {
  const LineReader before = line;
  OF_ASSIGN_OR_RETURN(const absl::string_view word, line.Word("a value"));
  int index = 0;
  const bool named = word[0] == 'x' || word[0] == 'y' || word[0] == 't';
  if (!named || !absl::SimpleAtoi(word.substr(1), &index) || index < 0) {
    return before.Expected("x, y or t with a number");
  }
  const auto kind = static_cast<Kind>(word[0]);
  if (index >= Most(kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(word, ": there are at most ", Most(kind), " of ", word.substr(0, 1)));
  }
  return ElementwiseValue{kind, index};
}

absl::StatusOr<ElementwiseCall> ReadCall(LineReader& line) {
  ElementwiseCall call;
  OF_ASSIGN_OR_RETURN(call.out, ReadValue(line));
  OF_RETURN_IF_ERROR(line.Expect("=", "after the output"));
  OF_ASSIGN_OR_RETURN(const absl::string_view op, line.Word("an op"));
  call.op = std::string(op);
  OF_RETURN_IF_ERROR(line.Expect("(", "after the op"));
  do {
    OF_ASSIGN_OR_RETURN(call.in.emplace_back(), ReadValue(line));
  } while (line.Accept(","));
  OF_RETURN_IF_ERROR(line.Expect(")", "after the inputs"));
  OF_ASSIGN_OR_RETURN(call.attrs, ReadAttrs(line));
  return call;
}

// Which values there are of one kind, as calls read and make them.
struct Seen {
  bool of[kMostElementwiseCalls] = {};
  int count() const { return static_cast<int>(std::count(std::begin(of), std::end(of), true)); }
  // All with a number below count() are there.
  bool has_gap() const {
    return !std::all_of(of, of + count(), [](bool seen) { return seen; });
  }
};
static_assert(kMostElementwiseInputs <= kMostElementwiseCalls && kMostElementwiseOutputs <= kMostElementwiseCalls);

struct AllSeen {
  Seen inputs, outputs, temporaries;

  Seen& operator[](Kind kind) { return kind == Kind::kInput ? inputs : kind == Kind::kOutput ? outputs : temporaries; }

  absl::Status Add(const ElementwiseCall& call) {
    for (const ElementwiseValue& value : call.in) {
      bool& seen = (*this)[value.kind].of[value.index];
      if (value.kind == Kind::kInput) seen = true;
      if (!seen) return absl::InvalidArgumentError(absl::StrCat(ToString(value), " is read before it is made"));
    }
    if (call.out.kind == Kind::kInput) {
      return absl::InvalidArgumentError(absl::StrCat(ToString(call.out), " is an input, which no call makes"));
    }
    bool& seen = (*this)[call.out.kind].of[call.out.index];
    if (seen) return absl::InvalidArgumentError(absl::StrCat(ToString(call.out), " is made twice"));
    seen = true;
    return absl::OkStatus();
  }
};

}  // namespace

std::string ToString(const ElementwiseProgram& program) {
  const auto value = [](std::string* out, const ElementwiseValue& v) { absl::StrAppend(out, ToString(v)); };
  return absl::StrJoin(program.calls, "; ", [&](std::string* out, const ElementwiseCall& call) {
    absl::StrAppend(out, ToString(call.out), " = ", call.op, "(", absl::StrJoin(call.in, ", ", value), ")");
    if (!call.attrs.items().empty()) absl::StrAppend(out, " ", AttrsToText(call.attrs));
  });
}

absl::StatusOr<ElementwiseProgram> ParseElementwise(absl::string_view text) {
  ElementwiseProgram program;
  AllSeen seen;
  size_t reads = 0;
  LineReader line(text);
  do {
    const std::string where = absl::StrCat("call ", program.calls.size());
    if (program.calls.size() == static_cast<size_t>(kMostElementwiseCalls)) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": there are at most ", kMostElementwiseCalls, " calls"));
    }
    OF_ASSIGN_OR_RETURN_AT(program.calls.emplace_back(), ReadCall(line), where);
    OF_RETURN_IF_ERROR_AT(seen.Add(program.calls.back()), where);
    reads += program.calls.back().in.size();
    if (reads > kMostElementwiseReads) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": calls read more than ", kMostElementwiseReads, " values"));
    }
  } while (line.Accept(";"));
  if (!line.AtEnd()) return line.Expected("';'");
  for (const Kind kind : {Kind::kInput, Kind::kOutput, Kind::kTemporary}) {
    if (!seen[kind].has_gap()) continue;
    return absl::InvalidArgumentError(absl::StrCat("there are ", seen[kind].count(), " of ",
                                                   std::string(1, static_cast<char>(kind)),
                                                   ", but not those with the smallest numbers"));
  }
  if (seen.outputs.count() == 0) return absl::InvalidArgumentError("no call makes an output");
  program.inputs = seen.inputs.count();
  program.outputs = seen.outputs.count();
  program.temporaries = seen.temporaries.count();
  return program;
}

TemporaryPlaces PlaceTemporaries(const ElementwiseProgram& program) {
  TemporaryPlaces places{std::vector<int>(program.temporaries, -1)};
  std::vector<size_t> last(program.temporaries, 0);
  for (size_t at = 0; at < program.calls.size(); ++at) {
    for (const ElementwiseValue& value : program.calls[at].in) {
      if (value.kind == Kind::kTemporary) last[value.index] = at;
    }
  }
  std::vector<int> free;
  for (size_t at = 0; at < program.calls.size(); ++at) {
    const ElementwiseCall& call = program.calls[at];
    if (call.out.kind == Kind::kTemporary) {
      if (free.empty()) free.push_back(places.count++);
      places.of[call.out.index] = free.back();
      free.pop_back();
    }
    for (const ElementwiseValue& value : call.in) {
      if (value.kind != Kind::kTemporary || last[value.index] != at) continue;
      free.push_back(places.of[value.index]);
      last[value.index] = program.calls.size();  // a call may read it twice
    }
  }
  return places;
}

DType ElementwiseDType(const ElementwiseCall& call, DType first) {
  for (const char* const name : {"dtype", "out_dtype"}) {
    DType given;
    if (ParseDType(call.attrs.String(name).c_str(), &given)) return given;
  }
  return first;
}

}  // namespace oneflow
