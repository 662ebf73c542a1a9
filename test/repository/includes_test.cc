// Headers include what they name of the standard library and of Abseil, themselves or through headers of ours. The
// compiler cannot say so: it has these precompiled.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// What each include brings.
const std::pair<const char*, const char*> kNames[] = {
    {"<algorithm>", "fill max min sort stable_sort unique"},
    {"<array>", "array"},
    {"<atomic>", "atomic memory_order_acquire memory_order_relaxed memory_order_release"},
    {"<bit>", "bit_cast"},
    {"<bitset>", "bitset"},
    {"<chrono>", "chrono"},
    {"<cmath>", "fma isfinite log sqrt"},
    {"<condition_variable>", "condition_variable"},
    {"<cstring>", "memcpy memset"},
    {"<deque>", "deque"},
    {"<fstream>", "ofstream"},
    {"<functional>", "function greater less"},
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
  static const std::regex kInclude(R"(#include (<[^>]*>|"[^"]*"))");
  const std::string text = TextOf(fs::path(SourceDir()) / header);
  std::set<std::string> all;
  for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
    const std::string include = (*it)[1];
    all.insert(include);
    const std::string path = include.substr(1, include.size() - 2);
    if (include[0] != '"' || !fs::exists(fs::path(SourceDir()) / path)) continue;
    const std::set<std::string>& through = IncludedBy(path, known);
    all.insert(through.begin(), through.end());
  }
  if (all.count("\"absl/status/statusor.h\"") > 0) all.insert("\"absl/status/status.h\"");
  return known[header] = all;
}

// The names of libraries in a header's code.
std::set<std::string> NamesIn(const std::string& header) {
  static const std::regex kNoCode(R"(//[^\n]*|"(\\.|[^"\\\n])*")"),
      kName(R"(\b(std|absl)::\w+|\bu?int(8|16|32|64)_t\b)");
  const std::string code = std::regex_replace(TextOf(fs::path(SourceDir()) / header), kNoCode, "");
  return {std::sregex_token_iterator(code.begin(), code.end(), kName), {}};
}

TEST(IncludesTest, HeadersIncludeWhatTheyNameOfLibraries) {
  std::map<std::string, std::set<std::string>> known;
  int headers = 0;
  for (const char* room : {"oneflow_core", "sbp", "compiler", "kernels", "actor", "tools"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(SourceDir()) / room)) {
      const std::string header = fs::relative(entry.path(), SourceDir()).string();
      if (entry.path().extension() != ".h" || header.rfind("kernels/cuda/", 0) == 0) continue;
      ++headers;
      for (const std::string& name : NamesIn(header)) {
        const bool is_integer = name.find("::") == std::string::npos;
        ASSERT_TRUE(is_integer || Bringers().count(name) > 0)
            << header << " names " << name << ": say here what brings it";
        const std::string include = is_integer ? "<cstdint>" : Bringers().at(name);
        EXPECT_TRUE(IncludedBy(header, known).count(include) > 0)
            << header << " names " << name << " without " << include;
      }
    }
  }
  EXPECT_GT(headers, 150) << "the rooms were not found under " << SourceDir();
}

}  // namespace
}  // namespace oneflow
