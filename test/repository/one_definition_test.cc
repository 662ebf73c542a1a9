// No two types have one name in one namespace: a program that is linked of both would silently use one of them for
// both, and nothing that compiles or links says so. What is in an unnamed namespace is a file's own.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Words and single characters of a C++ source, without comments, literals and preprocessor lines.
class Tokens {
 public:
  explicit Tokens(const std::string& text) : text_(text) {
    while (at_ < text_.size()) Next();
  }
  const std::vector<std::string>& all() const { return tokens_; }

 private:
  bool Begins(const char* what) const { return text_.compare(at_, std::string(what).size(), what) == 0; }
  void SkipPast(const std::string& what) {
    const size_t end = text_.find(what, at_);
    at_ = end == std::string::npos ? text_.size() : end + what.size();
  }

  void Next() {
    const char c = text_[at_];
    if (Begins("//")) return SkipPast("\n");
    if (Begins("/*")) return SkipPast("*/");
    if (Begins("R\"")) return SkipPast(")" + text_.substr(at_ + 2, text_.find('(', at_) - at_ - 2) + "\"");
    if (c == '#') return SkipLine();
    if (c == '"') return SkipQuoted();
    // A quote within a number separates digits.
    if (c == '\'' && (tokens_.empty() || !std::isdigit(static_cast<unsigned char>(text_[at_ - 1]))))
      return SkipQuoted();
    if (!IsWordChar(c)) {
      if (!std::isspace(static_cast<unsigned char>(c))) tokens_.emplace_back(1, c);
      ++at_;
      return;
    }
    std::string word;
    while (at_ < text_.size() && IsWordChar(text_[at_])) word += text_[at_++];
    if (at_ < text_.size() && text_[at_] == '"' && word.back() == 'R') return SkipPast(RawEnd());
    tokens_.push_back(std::move(word));
  }
  std::string RawEnd() const { return ")" + text_.substr(at_ + 1, text_.find('(', at_) - at_ - 1) + "\""; }

  void SkipLine() {
    while (at_ < text_.size() && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
  }
  void SkipQuoted() {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
  }

  const std::string& text_;
  size_t at_ = 0;
  std::vector<std::string> tokens_;
};

// The types that a source defines, with their namespaces: "oneflow::testing::Trial". Not those within types, functions
// or unnamed namespaces.
std::vector<std::string> TypesDefinedIn(const std::string& source) {
  const Tokens tokens(source);
  const std::vector<std::string>& all = tokens.all();
  std::vector<std::string> types, open;  // of each brace the namespace that it opens; "{": something else
  const auto at = [&](size_t i) -> const std::string& {
    static const auto* const none = new std::string;
    return i < all.size() ? all[i] : *none;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == "}" && !open.empty()) open.pop_back();
    if (all[i] == "{") open.push_back("{");
    if (all[i] == "namespace") {
      std::string name;
      size_t end = i + 1;
      while (end < all.size() && all[end] != "{" && all[end] != ";" && all[end] != "=") name += all[end++];
      if (at(end) == "{") open.push_back(name.empty() ? "unnamed" : name);
      i = end;
      continue;
    }
    const bool outside = std::none_of(open.begin(), open.end(), [](const std::string& what) { return what == "{"; });
    const bool is_type = all[i] == "class" || all[i] == "struct" || all[i] == "union" || all[i] == "enum";
    if (!outside || !is_type || (i > 0 && all[i - 1] == "enum")) continue;
    // A template's parameter, or what a function returns, is followed by something else.
    size_t name = i + 1;
    while (at(name) == "class" || at(name) == "struct") ++name;                    // enum class
    while (at(name) == "[" || at(name) == "nodiscard" || at(name) == "]") ++name;  // attributes
    if (at(name) == "alignas") name += 4;                                          // ( n )
    size_t next = name + 1;
    if (at(next) == "final") ++next;
    if (at(next) == ":" && at(next + 1) != ":") {
      while (next < all.size() && all[next] != "{" && all[next] != ";" && all[next] != "(") ++next;
    }
    if (at(next) != "{") continue;
    std::string full;
    for (const std::string& space : open) full += space + "::";
    if (full.find("unnamed::") == std::string::npos) types.push_back(full + at(name));
  }
  return types;
}

TEST(OneDefinitionTest, ASourceSaysWhichTypesItDefines) {
  EXPECT_THAT(TypesDefinedIn(R"cpp(
#define struct \
                  Macro { int x; }
                struct Global;  // struct Comment {};
                namespace a::b {
                template <class T, typename U>
                struct One : public Base<T> {
                  struct Within {
                    int x;
                  };
                };
                enum class Two : uint8_t { kFirst };
                class Three final {
                  const char* text = "struct Text {";
                  const char c = '{';
                };
                struct One<int>::Nested Function() {
                  struct Local {
                    int x;
                  };
                  return {};
                } namespace {
                  struct Own {
                    int x = 1'000;
                  };
                }
                }  // namespace a::b
                using namespace a;
                namespace c = a::b;
                struct alignas(64) Four {};
              )cpp"),
              ElementsAre("a::b::One", "a::b::Two", "a::b::Three", "Four"));
  EXPECT_THAT(TypesDefinedIn("namespace a { struct Impl::State { }; }"), IsEmpty());
}

TEST(OneDefinitionTest, NoTwoTypesHaveOneName) {
  std::map<std::string, std::vector<std::string>> files;
  const fs::path root = SourceDir();
  for (const char* room : {"oneflow_core", "sbp", "compiler", "kernels", "actor", "tools", "test"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      for (const std::string& type : TypesDefinedIn(text.str())) {
        files[type].push_back(fs::relative(entry.path(), root).string());
      }
    }
  }
  EXPECT_GT(files.size(), 500u) << "the sources were not found under " << root;
  for (const auto& [type, in] : files) EXPECT_EQ(in.size(), 1u) << type << " is defined in " << absl::StrJoin(in, ", ");
}

}  // namespace
}  // namespace oneflow
