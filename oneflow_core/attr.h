// Attributes of a node: a small ordered map from names to constants. Standard library only, so that kernels of every
// device may read it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace oneflow {

using Attr = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

// Ordered by name, so that everything printed or serialised from it is deterministic. The getters return `fallback`
// when the attribute is absent or of another type (an int64 is read as a double too); infer functions validate, kernels
// trust.
class AttrMap {
 public:
  AttrMap() = default;
  AttrMap(std::initializer_list<std::pair<const std::string, Attr>> items) : items_(items) {}

  void Set(const std::string& name, Attr value) { items_[name] = std::move(value); }
  bool Has(const std::string& name) const { return items_.count(name) > 0; }
  const std::map<std::string, Attr>& items() const { return items_; }

  bool Bool(const std::string& name, bool fallback = false) const { return Get(name, fallback); }
  int64_t Int(const std::string& name, int64_t fallback = 0) const { return Get(name, fallback); }
  double Double(const std::string& name, double fallback = 0) const {
    if (const int64_t* value = Find<int64_t>(name)) return static_cast<double>(*value);
    return Get(name, fallback);
  }
  std::string String(const std::string& name, const std::string& fallback = "") const { return Get(name, fallback); }
  std::vector<int64_t> Ints(const std::string& name, const std::vector<int64_t>& fallback = {}) const {
    return Get(name, fallback);
  }

  bool operator==(const AttrMap& o) const { return items_ == o.items_; }

 private:
  template <typename T>
  const T* Find(const std::string& name) const {
    const auto it = items_.find(name);
    return it == items_.end() ? nullptr : std::get_if<T>(&it->second);
  }
  template <typename T>
  T Get(const std::string& name, const T& fallback) const {
    const T* value = Find<T>(name);
    return value == nullptr ? fallback : *value;
  }

  std::map<std::string, Attr> items_;
};

}  // namespace oneflow
