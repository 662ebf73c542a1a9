#include "tools/study/calibration/sample_text.h"

#include <cstdint>
#include <vector>

namespace oneflow {
namespace {

// splitmix64.
class Random {
 public:
  uint64_t Below(uint64_t limit) {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % limit;
  }

 private:
  uint64_t state_ = 1;
};

std::vector<std::string> Words(size_t count, Random& random) {
  constexpr char kConsonants[] = "bcdfghjklmnprstvw";
  constexpr char kVowels[] = "aeiou";
  std::vector<std::string> words;
  while (words.size() < count) {
    std::string word;
    for (uint64_t syllables = 1 + random.Below(3); syllables > 0; --syllables) {
      word += kConsonants[random.Below(sizeof(kConsonants) - 1)];
      word += kVowels[random.Below(sizeof(kVowels) - 1)];
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

std::string SampleText(size_t num_bytes) {
  Random random;
  const std::vector<std::string> words = Words(400, random);
  std::string text;
  while (text.size() < num_bytes) {
    // The smaller of two draws: early words are more frequent.
    const uint64_t one = random.Below(words.size()), other = random.Below(words.size());
    text += words[one < other ? one : other];
    text += random.Below(12) == 0 ? ".\n" : " ";
  }
  text.resize(num_bytes);
  return text;
}

}  // namespace oneflow
