// Names of nodes, by the rules of torch.fx (_Namespace, _snake_case) and torch._dynamo (placeholders), so that a graph
// of the same program reads the same.
#pragma once
#include <Python.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace pellucid::graph {

// Unique names.
class Namespace {
 public:
  std::string unique(std::string_view candidate);  // an identifier that is not taken, not a keyword and not a builtin
  std::string unique_plain(
      std::string_view candidate);      // candidate, candidate_0, candidate_1, …: torch._dynamo's rule for inputs
  void reserve(std::string_view name);  // only unique_plain minds these
  const std::unordered_set<std::string>& used() const noexcept { return used_; }
  const std::unordered_map<std::string, int>& counters() const noexcept {
    return count_;
  }  // base name -> last number given

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> count_;
};

std::string snake_case(std::string_view text);      // "camelCase" -> "camel_case"
std::string candidate_of_target(PyObject* target);  // a callable's __name__ or a method's name, "__add__" -> "add"
std::string identifier_of_source(std::string_view text);  // "L['self'].w[0]" -> "L_self_w_0_"

}  // namespace pellucid::graph
