// Rows that say something of operators by name.
#pragma once
#include <cstddef>

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

}  // namespace pellucid::aten
