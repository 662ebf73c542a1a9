#include "oneflow_core/ops/check.h"

#include "absl/strings/str_join.h"
#include "oneflow_core/tiers.h"

namespace oneflow::ops {
namespace {

// As Shape::Parse: byte counts and offsets stay far from overflowing int64_t.
constexpr int64_t kMaxElements = int64_t{1} << 58;

bool Allows(Elements elements, DType dtype) {
  switch (elements) {
    case kAny:
      return true;
    case kNumber:
      return IsFloating(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64;
    case kFloat:
      return IsFloating(dtype);
    case kFloat32:
      return dtype == DType::kFloat32;
    case kIndex:
      return dtype == DType::kInt32;
    case kCounter:
      return dtype == DType::kInt64;
    case kBool:
      return dtype == DType::kBool;
  }
  return false;
}

const char* Describe(Elements elements) {
  switch (elements) {
    case kAny:
      return "of any dtype";
    case kNumber:
      return "floating, i32 or i64";
    case kFloat:
      return "floating";
    case kFloat32:
      return "f32";
    case kIndex:
      return "i32";
    case kCounter:
      return "i64";
    case kBool:
      return "bool";
  }
  return "";
}

absl::Status CheckOperand(const Operand& operand, const TensorType& type) {
  if (!Allows(operand.elements, type.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(operand.name, " is ", type.ToString(), " but must be ", Describe(operand.elements)));
  }
  const int rank = type.shape.rank();
  if (rank >= operand.rank.min && rank <= operand.rank.max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operand.name, " is ", type.ToString(), " but must have ",
                                                 operand.rank.min == operand.rank.max ? "" : "at least ",
                                                 operand.rank.min, " dimensions"));
}

absl::Status MissingAttr(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is missing"));
}

// The attribute if present and a T, null if absent. `kind` describes T in the error.
template <typename T>
absl::StatusOr<const T*> FindAttr(const AttrMap& attrs, const std::string& name, absl::string_view kind) {
  const auto it = attrs.items().find(name);
  if (it == attrs.items().end()) return nullptr;
  if (const T* value = std::get_if<T>(&it->second)) return value;
  static constexpr const char* kKinds[] = {"a bool", "an integer", "a number", "a string", "a list of integers"};
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", name, "' is ", kKinds[it->second.index()], " but must be ", kind));
}

absl::StatusOr<int64_t> CheckRange(const std::string& name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return value;
  if (max == kMaxInt) {
    return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", value, " but must be at least ", min));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", name, "' is ", value, " but must be in [", min, ", ", max, "]"));
}

}  // namespace

absl::Status CheckOperands(const InferContext& c, absl::Span<const Operand> operands) {
  if (c.inputs.size() != operands.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "takes ", operands.size(), " inputs (",
        absl::StrJoin(operands, ", ", [](std::string* out, const Operand& o) { absl::StrAppend(out, o.name); }),
        ") but is given ", c.inputs.size()));
  }
  const TensorType* first_float = nullptr;
  absl::string_view first_name;
  const TensorType* type = c.inputs.data();
  for (const Operand& operand : operands) {
    OF_RETURN_IF_ERROR(CheckOperand(operand, *type));
    if (operand.elements == kFloat) {
      if (first_float == nullptr) {
        first_float = type;
        first_name = operand.name;
      } else {
        OF_RETURN_IF_ERROR(CheckSameDType(first_name, *first_float, operand.name, *type));
      }
    }
    ++type;
  }
  return absl::OkStatus();
}

absl::Status CheckEveryOperand(const InferContext& c, const Operand& operand) {
  if (c.inputs.empty()) return absl::InvalidArgumentError("takes at least 1 input but is given 0");
  for (const TensorType& type : c.inputs) OF_RETURN_IF_ERROR(CheckOperand(operand, type));
  return absl::OkStatus();
}

absl::Status CheckType(absl::string_view name, const TensorType& type, const TensorType& expected,
                       absl::string_view because) {
  if (type == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", type.ToString(), " but ", because, " needs ", expected.ToString()));
}

absl::Status CheckSameDType(absl::string_view a_name, const TensorType& a, absl::string_view b_name,
                            const TensorType& b) {
  if (a.dtype == b.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dtypes differ: ", a_name, " is ", a.ToString(), ", ", b_name, " is ", b.ToString()));
}

absl::Status CheckSame(absl::string_view a_name, const TensorType& a, absl::string_view b_name, const TensorType& b) {
  if (a == b) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(a_name, " is ", a.ToString(), ", ", b_name, " is ", b.ToString(), "; they must be the same"));
}

absl::StatusOr<int64_t> IntAttr(const AttrMap& attrs, const std::string& name, int64_t min, int64_t max) {
  OF_ASSIGN_OR_RETURN(const int64_t* value, FindAttr<int64_t>(attrs, name, "an integer"));
  if (value == nullptr) return MissingAttr(name);
  return CheckRange(name, *value, min, max);
}

absl::StatusOr<int64_t> IntAttrOr(const AttrMap& attrs, const std::string& name, int64_t fallback, int64_t min,
                                  int64_t max) {
  return attrs.Has(name) ? IntAttr(attrs, name, min, max) : CheckRange(name, fallback, min, max);
}

absl::StatusOr<double> NumberAttr(const AttrMap& attrs, const std::string& name) {
  if (!attrs.Has(name)) return MissingAttr(name);
  return NumberAttrOr(attrs, name, 0);
}

absl::StatusOr<double> NumberAttrOr(const AttrMap& attrs, const std::string& name, double fallback) {
  if (FindAttr<int64_t>(attrs, name, "").ok()) return attrs.Double(name, fallback);  // an integer is a number too
  OF_ASSIGN_OR_RETURN(const double* value, FindAttr<double>(attrs, name, "a number"));
  return *value;
}

absl::Status CheckNotNegative(const AttrMap& attrs, const std::string& name) {
  OF_ASSIGN_OR_RETURN(const double value, NumberAttr(attrs, name));
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", value, " but must be at least 0"));
}

absl::StatusOr<std::string> StringAttr(const AttrMap& attrs, const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::string* value, FindAttr<std::string>(attrs, name, "a string"));
  if (value == nullptr) return MissingAttr(name);
  return *value;
}

absl::StatusOr<bool> BoolAttrOr(const AttrMap& attrs, const std::string& name, bool fallback) {
  OF_ASSIGN_OR_RETURN(const bool* value, FindAttr<bool>(attrs, name, "a bool"));
  return value == nullptr ? fallback : *value;
}

absl::StatusOr<std::vector<int64_t>> IntsAttr(const AttrMap& attrs, const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t>* value,
                      FindAttr<std::vector<int64_t>>(attrs, name, "a list of integers"));
  if (value == nullptr) return MissingAttr(name);
  return *value;
}

absl::StatusOr<Shape> ShapeAttr(const AttrMap& attrs, const std::string& name) {
  OF_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, IntsAttr(attrs, name));
  Shape shape(std::move(sizes));
  for (int64_t size : shape.dims()) {
    if (size < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", name, "' is ", shape.ToString(), ": size ", size, " is negative"));
    }
  }
  return shape;
}

absl::StatusOr<DType> DTypeAttr(const AttrMap& attrs, const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::string text, StringAttr(attrs, name));
  DType dtype;
  if (ParseDType(text.c_str(), &dtype)) return dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", name, "' is '", text, "' but must be f32, bf16, f16, i32, i64, u8 or bool"));
}

absl::StatusOr<DType> OutDType(const AttrMap& attrs, DType natural) {
  if (!attrs.Has("out_dtype")) return natural;
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(attrs, "out_dtype"));
  if (IsFloating(dtype)) return dtype;
  return absl::InvalidArgumentError(absl::StrCat("attribute 'out_dtype' is '", Name(dtype), "' but must be floating"));
}

absl::StatusOr<DType> ProductDType(const AttrMap& attrs, DType operands) {
  OF_ASSIGN_OR_RETURN(const DType dtype, OutDType(attrs, operands));
  if (dtype == operands || dtype == DType::kFloat32) return dtype;
  return absl::InvalidArgumentError(absl::StrCat("attribute 'out_dtype' is '", Name(dtype),
                                                 "' but must be f32, or as the operands, which are ", Name(operands)));
}

absl::Status CheckKeyAttr(const AttrMap& attrs) {
  if (FindAttr<int64_t>(attrs, "key", "").ok()) return absl::OkStatus();
  return FindAttr<std::string>(attrs, "key", "a string").status();
}

absl::StatusOr<Types> Outputs(Types types) {
  for (const TensorType& type : types) {
    int64_t count = 1;
    for (int64_t size : type.shape.dims()) {
      if (size != 0 && count > kMaxElements / size) {
        return absl::InvalidArgumentError(absl::StrCat("the result ", type.ToString(), " has more than 2^58 elements"));
      }
      count *= size == 0 ? 1 : size;
    }
  }
  return types;
}

AttrMap With(AttrMap attrs, const std::string& name, Attr value) {
  attrs.Set(name, std::move(value));
  return attrs;
}

AttrMap Unrounded(AttrMap attrs, DType dtype) {
  return IsNarrow(dtype) ? With(std::move(attrs), "out_dtype", std::string(Name(DType::kFloat32))) : attrs;
}

AttrMap ShapeOfShard(const AttrMap& attrs, absl::Span<const ShardType>, absl::Span<const ShardType> outputs) {
  return With(attrs, "shape", outputs[0].dims.dims());
}

absl::Status CheckTier(const AttrMap& attrs) {
  OF_ASSIGN_OR_RETURN(const std::string tier, StringAttr(attrs, kTierAttr));
  if (FindTier(tier) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attribute 'tier' is '", tier, "', which is no tier"));
}

std::vector<int> BlocksByElement(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                                 const AttrMap&) {
  std::vector<int> groups;
  bool alike = outputs[0].shape.rank() == 4;
  const auto add = [&](const TensorType& x) {
    alike = alike && (x.shape == outputs[0].shape || x.shape.rank() == 0);
    groups.push_back(x.shape.rank() == 4 ? 0 : -1);
  };
  for (const TensorType& x : inputs) add(x);
  for (const TensorType& x : outputs) add(x);
  return alike ? groups : std::vector<int>(groups.size(), -1);
}

std::vector<int> BlocksByChannel(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                                 const AttrMap&) {
  std::vector<int> groups;
  for (const TensorType& x : inputs) groups.push_back(x.shape.rank() == 4 ? 0 : -1);
  for (const TensorType& x : outputs) groups.push_back(x.shape.rank() == 4 ? 0 : -1);
  return groups;
}

double FlopsOfInput(absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap&) {
  return static_cast<double>(inputs[0].shape.count());
}

double FlopsOfProduct(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap&) {
  return 2.0 * static_cast<double>(outputs[0].shape.count()) * static_cast<double>(inputs[0].shape.dims().back());
}

}  // namespace oneflow::ops
