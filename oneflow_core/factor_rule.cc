#include "oneflow_core/factor_rule.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

constexpr char kNoLetter = '1';

// One operand of the text: "...mk" is {true, "mk"}.
struct OperandText {
  bool ellipsis = false;
  std::string letters;
};

struct Mark {
  std::string word;                     // "whole", "max", "min" or "linear"
  std::vector<absl::string_view> args;  // views into the text
};

struct RuleText {
  std::vector<OperandText> inputs;
  std::vector<OperandText> outputs;
  std::vector<Mark> marks;
};

// Reads the text without looking at types; every error says where in the text it is.
class TextParser {
 public:
  explicit TextParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<RuleText> Parse(size_t num_inputs, size_t num_outputs) const {
    const std::vector<absl::string_view> parts = absl::StrSplit(text_, ';');
    const size_t arrow = parts[0].find("->");
    if (arrow == absl::string_view::npos) return Error(parts[0], "has no '->'");
    RuleText rule;
    OF_ASSIGN_OR_RETURN(rule.inputs, ParseSide(parts[0].substr(0, arrow), num_inputs, "inputs"));
    OF_ASSIGN_OR_RETURN(rule.outputs, ParseSide(parts[0].substr(arrow + 2), num_outputs, "outputs"));
    for (size_t i = 1; i < parts.size(); ++i) {
      OF_ASSIGN_OR_RETURN(Mark mark, ParseMark(parts[i]));
      rule.marks.push_back(std::move(mark));
    }
    return rule;
  }

  // InvalidArgument at the position of `where`, a view into the text.
  absl::Status Error(absl::string_view where, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("rule '", text_, "', position ", where.data() - text_.data(), ": ", what));
  }

 private:
  // An empty side is no operand or one scalar: the number of operands decides ("->" of a counter, "...->" of a sum of
  // squares).
  absl::StatusOr<std::vector<OperandText>> ParseSide(absl::string_view side, size_t count,
                                                     absl::string_view what) const {
    side = absl::StripAsciiWhitespace(side);
    std::vector<OperandText> operands;
    if (side.empty() && count == 0) return operands;
    for (absl::string_view operand : absl::StrSplit(side, ',')) {
      OperandText parsed;
      absl::string_view letters = operand;
      parsed.ellipsis = absl::ConsumePrefix(&letters, "...");
      for (size_t i = 0; i < letters.size(); ++i) {
        if (letters[i] == kNoLetter) continue;
        if (!absl::ascii_isalpha(letters[i])) {
          return Error(letters.substr(i), absl::StrCat("'", letters.substr(i, 1), "' is not a letter"));
        }
        if (letters.substr(0, i).find(letters[i]) != absl::string_view::npos) {
          return Error(letters.substr(i),
                       absl::StrCat("letter ", letters.substr(i, 1), " stands twice in one operand"));
        }
      }
      parsed.letters = std::string(letters);
      operands.push_back(std::move(parsed));
    }
    if (operands.size() != count) {
      return Error(side, absl::StrCat("has ", operands.size(), " ", what, ", the op has ", count));
    }
    return operands;
  }

  absl::StatusOr<Mark> ParseMark(absl::string_view text) const {
    std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
    if (words.empty()) return Error(text, "empty mark");
    Mark mark{std::string(words[0]), {words.begin() + 1, words.end()}};
    if (mark.word != "whole" && mark.word != "max" && mark.word != "min" && mark.word != "linear") {
      return Error(words[0], absl::StrCat("'", words[0], "' is none of whole, max, min, linear"));
    }
    if (mark.args.empty()) return Error(words[0], absl::StrCat("'", words[0], "' names nothing"));
    return mark;
  }

  absl::string_view text_;
};

// Gives the letters of a rule text to the dimensions of typed operands.
class Fitter {
 public:
  explicit Fitter(const TextParser& parser) : parser_(parser) {}

  absl::StatusOr<FactorRule> Fit(const RuleText& text, absl::Span<const TensorType> inputs,
                                 absl::Span<const TensorType> outputs) {
    OF_RETURN_IF_ERROR(MeasureEllipsis(text.inputs, inputs, "input"));
    OF_RETURN_IF_ERROR(MeasureEllipsis(text.outputs, outputs, "output"));
    OF_RETURN_IF_ERROR(FitSide(text.inputs, inputs, "input", rule_.inputs));
    OF_RETURN_IF_ERROR(FitSide(text.outputs, outputs, "output", rule_.outputs));
    MarkSummed();
    for (const Mark& mark : text.marks) OF_RETURN_IF_ERROR(Apply(mark, static_cast<int>(inputs.size())));
    return std::move(rule_);
  }

 private:
  // The sizes behind "...": dimensions are aligned at the right as in NumPy, a size other than 1 wins.
  absl::Status MeasureEllipsis(const std::vector<OperandText>& texts, absl::Span<const TensorType> types,
                               absl::string_view side) {
    for (size_t i = 0; i < texts.size(); ++i) {
      const Shape& shape = types[i].shape;
      const int leading = shape.rank() - static_cast<int>(texts[i].letters.size());
      if (leading < 0 || (leading > 0 && !texts[i].ellipsis)) {
        return absl::InvalidArgumentError(absl::StrCat(
            side, " ", i, " is ", types[i].ToString(), " but its rule is '", texts[i].ellipsis ? "..." : "",
            texts[i].letters, "', ", texts[i].ellipsis ? "at least " : "", texts[i].letters.size(), " dimensions"));
      }
      if (leading > static_cast<int>(ellipsis_.size()))
        ellipsis_.insert(ellipsis_.begin(), leading - ellipsis_.size(), 1);
      for (int d = 0; d < leading; ++d) {
        int64_t& size = ellipsis_[ellipsis_.size() - leading + d];
        if (size == 1) size = shape[d];
      }
    }
    return absl::OkStatus();
  }

  absl::Status FitSide(const std::vector<OperandText>& texts, absl::Span<const TensorType> types,
                       absl::string_view side, std::vector<std::vector<int>>& operands) {
    for (size_t i = 0; i < texts.size(); ++i) {
      const Shape& shape = types[i].shape;
      const int leading = shape.rank() - static_cast<int>(texts[i].letters.size());
      std::vector<int> dims;
      for (int d = 0; d < shape.rank(); ++d) {
        const int position = static_cast<int>(ellipsis_.size()) - leading + d;
        const bool in_ellipsis = d < leading;
        const bool is_one = !in_ellipsis && texts[i].letters[d - leading] == kNoLetter;
        if (is_one && shape[d] != 1) {
          return absl::InvalidArgumentError(absl::StrCat(side, " ", i, ", ", types[i].ToString(), ": dimension ", d,
                                                         " has no letter but size ", shape[d]));
        }
        if (is_one || (in_ellipsis && shape[d] == 1 && ellipsis_[position] != 1)) {
          dims.push_back(FactorRule::kNone);
          continue;
        }
        const std::string name =
            in_ellipsis ? absl::StrCat("...", position) : std::string(1, texts[i].letters[d - leading]);
        OF_ASSIGN_OR_RETURN_AT(const int letter, LetterOf(name, shape[d]),
                               absl::StrCat(side, " ", i, ", ", types[i].ToString()));
        dims.push_back(letter);
      }
      operands.push_back(std::move(dims));
    }
    return absl::OkStatus();
  }

  // The letter of that name, new if it was not met before.
  absl::StatusOr<int> LetterOf(const std::string& name, int64_t size) {
    const int letter = Find(name);
    if (letter < 0) {
      rule_.letters.push_back({name});
      sizes_.push_back(size);
      return static_cast<int>(rule_.letters.size()) - 1;
    }
    if (sizes_[letter] != size) {
      return absl::InvalidArgumentError(
          absl::StrCat("letter ", name, " stands for both ", sizes_[letter], " and ", size));
    }
    return letter;
  }

  int Find(absl::string_view name) const {
    for (size_t i = 0; i < rule_.letters.size(); ++i) {
      if (rule_.letters[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  bool InSomeOutput(int letter) const {
    return std::any_of(rule_.outputs.begin(), rule_.outputs.end(), [&](const std::vector<int>& dims) {
      return std::find(dims.begin(), dims.end(), letter) != dims.end();
    });
  }

  void MarkSummed() {
    for (size_t i = 0; i < rule_.letters.size(); ++i) {
      if (!InSomeOutput(static_cast<int>(i))) rule_.letters[i].mark = FactorRule::Mark::kSum;
    }
  }

  absl::Status Apply(const Mark& mark, int num_inputs) {
    if (mark.word == "linear") return ApplyLinear(mark, num_inputs);
    for (absl::string_view arg : mark.args) {
      const int letter = Find(arg);
      if (letter < 0) return parser_.Error(arg, absl::StrCat("no operand has a letter ", arg));
      if (mark.word == "whole") {
        rule_.letters[letter].mark = FactorRule::Mark::kWhole;
        continue;
      }
      if (InSomeOutput(letter)) {
        return parser_.Error(arg, absl::StrCat("letter ", arg, " is not reduced: an output has it"));
      }
      rule_.letters[letter].mark = mark.word == "max" ? FactorRule::Mark::kMax : FactorRule::Mark::kMin;
    }
    return absl::OkStatus();
  }

  absl::Status ApplyLinear(const Mark& mark, int num_inputs) {
    std::vector<int> operands;
    for (absl::string_view arg : mark.args) {
      int operand = -1;
      if (!absl::SimpleAtoi(arg, &operand) || operand < 0 || operand >= num_inputs) {
        return parser_.Error(arg, absl::StrCat("'", arg, "' is not one of the ", num_inputs, " inputs"));
      }
      operands.push_back(operand);
    }
    rule_.linear.push_back(std::move(operands));
    return absl::OkStatus();
  }

  const TextParser& parser_;
  FactorRule rule_;
  std::vector<int64_t> sizes_;     // per letter
  std::vector<int64_t> ellipsis_;  // the sizes behind "...", of all operands together
};

}  // namespace

absl::StatusOr<FactorRule> ParseFactorRule(absl::string_view text, absl::Span<const TensorType> inputs,
                                           absl::Span<const TensorType> outputs) {
  const TextParser parser(text);
  OF_ASSIGN_OR_RETURN(const RuleText parsed, parser.Parse(inputs.size(), outputs.size()));
  return Fitter(parser).Fit(parsed, inputs, outputs);
}

absl::StatusOr<std::optional<FactorRule>> FactorRuleOf(const OpDef& op, absl::Span<const TensorType> inputs,
                                                       absl::Span<const TensorType> outputs, const AttrMap& attrs) {
  const std::string text = op.rule_for != nullptr ? op.rule_for(inputs, attrs) : op.rule;
  if (text.empty()) return std::nullopt;
  return ParseFactorRule(text, inputs, outputs);
}

}  // namespace oneflow
