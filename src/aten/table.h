// Rows that say something of operators by name.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

namespace pellucid::aten {

template <class Value>
struct RowOf {
  const char* op;  // with its overload, or, where the look-up says so, without it
  Value value;
};
template <class Value>
struct TableOf {
  const RowOf<Value>* rows;
  std::size_t size;
};
template <class Value, std::size_t N>
constexpr TableOf<Value> as_table(const RowOf<Value> (&rows)[N]) {
  return {rows, N};
}
// What a short table says of an operator; Value() where it has no row.
template <class Value, std::size_t N>
Value find_in(const RowOf<Value> (&rows)[N], const std::string& name) {
  const auto* found = std::ranges::find_if(rows, [&](const RowOf<Value>& row) { return name == row.op; });
  return found == std::end(rows) ? Value() : found->value;
}

}  // namespace pellucid::aten
