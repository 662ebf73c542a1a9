// Headers include what they name, themselves or through headers of ours: of the standard library and of Abseil, which
// the compiler cannot say, since it has these precompiled; and types of ours, which it could say only by compiling each
// header alone.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// What each include brings.
const std::pair<const char*, const char*> kNames[] = {
    {"<algorithm>", "clamp fill max min minmax_element sort stable_sort unique"},
    {"<array>", "array"},
    {"<atomic>", "atomic memory_order_acquire memory_order_relaxed memory_order_release"},
    {"<bit>", "bit_cast"},
    {"<bitset>", "bitset"},
    {"<chrono>", "chrono"},
    {"<cmath>", "ceil cos fma isfinite log log1p round sin sqrt"},
    {"<condition_variable>", "condition_variable"},
    {"<cstdlib>", "strtod"},
    {"<cstring>", "memcpy memset"},
    {"<deque>", "deque"},
    {"<fstream>", "ofstream"},
    {"<functional>", "function greater invoke less"},
    {"<initializer_list>", "initializer_list"},
    {"<iterator>", "size"},
    {"<limits>", "numeric_limits"},
    {"<list>", "list"},
    {"<map>", "erase_if map"},
    {"<memory>", "make_shared make_unique shared_ptr unique_ptr"},
    {"<mutex>", "lock_guard mutex unique_lock"},
    {"<shared_mutex>", "shared_mutex"},
    {"<numeric>", "accumulate iota"},
    {"<optional>", "nullopt optional"},
    {"<queue>", "priority_queue"},
    {"<set>", "set"},
    {"<source_location>", "source_location"},
    {"<span>", "span"},
    {"<string>", "string"},
    {"<thread>", "thread"},
    {"<tuple>", "tie tuple"},
    {"<type_traits>", "is_invocable_v is_same_v"},
    {"<unordered_map>", "unordered_map"},
    {"<utility>", "exchange index_sequence make_index_sequence move pair swap"},
    {"<variant>", "get_if variant"},
    {"<vector>", "vector"},
    {"\"absl/container/flat_hash_map.h\"", "flat_hash_map"},
    {"\"absl/container/inlined_vector.h\"", "InlinedVector"},
    {"\"absl/functional/function_ref.h\"", "FunctionRef"},
    {"\"absl/status/status.h\"", "InternalError InvalidArgumentError OkStatus Status StatusCode"},
    {"\"absl/status/statusor.h\"", "StatusOr"},
    {"\"absl/strings/ascii.h\"", "ascii_isalnum"},
    {"\"absl/strings/numbers.h\"", "SimpleAtoi"},
    {"\"absl/strings/str_cat.h\"", "StrAppend StrCat"},
    {"\"absl/strings/str_join.h\"", "StrJoin"},
    {"\"absl/strings/str_split.h\"", "SkipEmpty StrSplit"},
    {"\"absl/strings/string_view.h\"", "string_view"},
    {"\"absl/synchronization/mutex.h\"", "Condition Mutex MutexLock"},
    {"\"absl/time/clock.h\"", "Now"},
    {"\"absl/time/time.h\"",
     "Duration FromChrono InfiniteDuration InfiniteFuture InfinitePast Milliseconds Minutes Seconds Time "
     "ToDoubleSeconds ZeroDuration"},
    {"\"absl/types/span.h\"", "Span"},
};

// Which include brings a name.
const std::map<std::string, std::string>& Bringers() {
  static const auto* const kBringers = [] {
    auto* bringers = new std::map<std::string, std::string>;
    for (const auto& [include, names] : kNames) {
      const std::string of = include[0] == '<' ? "std::" : "absl::";
      for (const absl::string_view name : absl::StrSplit(names, ' '))
        bringers->emplace(of + std::string(name), include);
    }
    return bringers;
  }();
  return *kBringers;
}

std::string TextOf(const fs::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// "<map>" and "\"sbp/slices.h\"": all that including `header`, a path from the root, includes.
const std::set<std::string>& IncludedBy(const std::string& header,
                                        std::map<std::string, std::set<std::string>>& known) {
  const auto [entry, is_new] = known.try_emplace(header);
  if (!is_new) return entry->second;
  static const std::regex kInclude(R"(#include (<[^>]*>|"[^"]*"))"), kGenerated(R"((\.grpc)?\.pb\.h$)"),
      kImport(R"(import "(proto/\w+)\.proto")");
  // What protoc makes of a file includes what it makes of those that the file imports.
  const std::string written = std::regex_replace(header, kGenerated, ".proto");
  const std::string text =
      std::regex_replace(TextOf(fs::path(SourceDir()) / written), kImport, "#include \"$1.pb.h\"\n");
  std::set<std::string> all;
  for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
    const std::string include = (*it)[1];
    all.insert(include);
    if (include[0] != '"') continue;
    const std::string path = include.substr(1, include.size() - 2);
    const std::set<std::string>& through = IncludedBy(path, known);
    all.insert(through.begin(), through.end());
  }
  if (all.count("\"absl/status/statusor.h\"") > 0) all.insert("\"absl/status/status.h\"");
  return known[header] = all;
}

// A file from the root, without comments and texts.
std::string CodeOf(const std::string& path) {
  static const std::regex kNoCode(R"(//[^\n]*|"(\\.|[^"\\\n])*")");
  return std::regex_replace(TextOf(fs::path(SourceDir()) / path), kNoCode, "");
}

// The names of libraries in a header's code.
std::set<std::string> NamesIn(const std::string& header) {
  static const std::regex kName(R"(\b(std|absl)::\w+|\bu?int(8|16|32|64)_t\b)");
  const std::string code = CodeOf(header);
  return {std::sregex_token_iterator(code.begin(), code.end(), kName), {}};
}

const std::vector<std::string> kRooms = {"oneflow_core", "sbp", "compiler", "kernels", "actor", "tools"};

// The place in kRooms of a header as it is included; -1 of what protoc makes.
int RoomOf(const std::string& include) {
  const auto room = std::find(kRooms.begin(), kRooms.end(), include.substr(1, include.find('/') - 1));
  return room == kRooms.end() ? -1 : static_cast<int>(room - kRooms.begin());
}

// Every header of the rooms, but those that nvcc compiles.
std::vector<std::string> Headers() {
  std::vector<std::string> headers;
  for (const std::string& room : kRooms) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(SourceDir()) / room)) {
      const std::string header = fs::relative(entry.path(), SourceDir()).string();
      if (entry.path().extension() == ".h" && header.rfind("kernels/cuda/", 0) != 0) headers.push_back(header);
    }
  }
  return headers;
}

// The types that a header says anything of, and those among them that it defines in a namespace, not in a class.
struct TypesOf {
  std::set<std::string> named;    // not in another class or in another project's namespace, nor called
  std::set<std::string> own;      // defined or declared here, wherever
  std::set<std::string> defined;  // for all to use
};

TypesOf TypesIn(const std::string& header) {
  static const std::regex kToken(R"([A-Za-z_]\w*|::|[{}();=<>:])");
  static const std::regex kType(R"([A-Z]\w*[a-z]\w*)");
  static const std::set<std::string> kOurs = {"oneflow", "pb", "nn"};
  static const std::set<std::string> kKeywords = {"class", "struct", "union", "enum", "using", "typename"};
  const std::string code = std::regex_replace(CodeOf(header), std::regex(R"(\n#[^\n]*)"), "\n");
  const std::vector<std::string> tokens{std::sregex_token_iterator(code.begin(), code.end(), kToken), {}};
  TypesOf types;
  std::vector<bool> in_namespace;  // of each open brace
  size_t deeper = 0;               // open braces that are no namespace's
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    const std::string before = i > 0 ? tokens[i - 1] : "", after = i + 1 < tokens.size() ? tokens[i + 1] : "";
    if (token == "{") {
      size_t start = i;
      while (start > 0 && tokens[start - 1] != ";" && tokens[start - 1] != "}" && tokens[start - 1] != "{") --start;
      in_namespace.push_back(tokens[start] == "namespace");
      deeper += !in_namespace.back();
    } else if (token == "}" && !in_namespace.empty()) {
      deeper -= !in_namespace.back();
      in_namespace.pop_back();
    }
    if (!std::regex_match(token, kType)) continue;
    if (kKeywords.count(before) > 0) {
      types.own.insert(token);
      const bool is_definition = before == "using" ? after == "=" : before != "typename" && after != ";";
      if (deeper == 0 && is_definition) types.defined.insert(token);
    } else if ((before != "::" || i < 2 || kOurs.count(tokens[i - 2]) > 0) && after != "(") {
      types.named.insert(i > 1 && tokens[i - 2] == "pb" ? "pb::" + token : token);
    }
  }
  return types;
}

TEST(IncludesTest, HeadersIncludeWhatTheyNameOfLibraries) {
  std::map<std::string, std::set<std::string>> known;
  const std::vector<std::string> headers = Headers();
  for (const std::string& header : headers) {
    for (const std::string& name : NamesIn(header)) {
      const bool is_integer = name.find("::") == std::string::npos;
      ASSERT_TRUE(is_integer || Bringers().count(name) > 0)
          << header << " names " << name << ": say here what brings it";
      const std::string include = is_integer ? "<cstdint>" : Bringers().at(name);
      EXPECT_TRUE(IncludedBy(header, known).count(include) > 0)
          << header << " names " << name << " without " << include;
    }
  }
  EXPECT_GT(headers.size(), 150u) << "the rooms were not found under " << SourceDir();
}

TEST(IncludesTest, HeadersIncludeTheTypesOfOursThatTheyName) {
  std::map<std::string, TypesOf> types;
  std::map<std::string, std::set<std::string>> definers;  // of each type, its headers as they are included
  for (const std::string& header : Headers()) {
    types[header] = TypesIn(header);
    for (const std::string& type : types[header].defined) definers[type].insert('"' + header + '"');
  }
  const std::regex kMessage(R"(\n(?:message|enum) (\w+))");
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(SourceDir()) / "proto")) {
    if (entry.path().extension() != ".proto") continue;
    const std::string text = TextOf(entry.path()), stem = "\"proto/" + entry.path().stem().string();
    for (std::sregex_iterator it(text.begin(), text.end(), kMessage), end; it != end; ++it) {
      for (const char* ending : {".pb.h\"", ".grpc.pb.h\""}) definers["pb::" + (*it)[1].str()].insert(stem + ending);
    }
  }
  EXPECT_GT(definers.size(), 500u);
  std::map<std::string, std::set<std::string>> known;
  for (const auto& [header, of] : types) {
    if (RoomOf('"' + header) < RoomOf("\"compiler/")) continue;  // compiled alone (test/CMakeLists.txt), as kernels are
    if (RoomOf('"' + header) == RoomOf("\"kernels/")) continue;
    for (const std::string& type : of.named) {
      if (definers.count(type) == 0 || of.own.count(type.substr(type.find_last_of(':') + 1)) > 0) continue;
      std::vector<std::string> candidates;  // those of a room that this one may include
      for (const std::string& definer : definers.at(type)) {
        if (RoomOf(definer) <= RoomOf('"' + header)) candidates.push_back(definer);
      }
      const std::set<std::string>& included = IncludedBy(header, known);
      EXPECT_TRUE(candidates.empty() ||
                  std::any_of(candidates.begin(), candidates.end(),
                              [&](const std::string& definer) { return included.count(definer) > 0; }))
          << header << " names " << type << " without " << candidates[0];
    }
  }
}

}  // namespace
}  // namespace oneflow
