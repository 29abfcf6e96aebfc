// Names that are given once each: "x", "x_1", "x_2", …
#pragma once
#include <functional>
#include <string>
#include <unordered_map>

namespace pellucid {

template <class Hash = std::hash<std::string>>
class UniqueNames {
 public:
  void reserve(const std::string& name) { next_.try_emplace(name, 1); }

  // The first of `base`, `base`_1, `base`_2, … that is free. Each base remembers how far it has come: a region may have
  // a million values of one name.
  std::string take(const std::string& base) {
    const auto [at, is_free] = next_.try_emplace(base, 1);
    if (is_free) return base;
    for (int& next = at->second;;) {
      std::string name = base + "_" + std::to_string(next++);
      if (next_.try_emplace(name, 1).second) return name;
    }
  }

 private:
  std::unordered_map<std::string, int, Hash> next_;  // a name that is taken -> the number to try next
};

}  // namespace pellucid
