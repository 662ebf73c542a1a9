#include "oneflow_core/text_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace oneflow {

std::string JoinTexts(absl::Span<const std::string> texts) {
  std::string all;
  for (const std::string& text : texts) {
    absl::StrAppend(&all, all.empty() ? "\"" : ",\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
  }
  return all;
}

absl::StatusOr<std::vector<std::string>> SplitTexts(absl::string_view text) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < text.size();) {
    const bool opens =
        text[at] == '"' || (text[at] == ',' && !texts.empty() && at + 1 < text.size() && text[at + 1] == '"');
    if (!opens || (text[at] == '"' && !texts.empty()))
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no list of texts in quotes"));
    at += text[at] == ',' ? 2 : 1;
    std::string& one = texts.emplace_back();
    while (at < text.size() && (text[at] != '"' || (at + 1 < text.size() && text[at + 1] == '"'))) {
      one += text[at];
      at += text[at] == '"' ? 2 : 1;
    }
    if (at == text.size()) return absl::InvalidArgumentError(absl::StrCat("'", text, "' ends inside quotes"));
    ++at;
  }
  return texts;
}

}  // namespace oneflow
