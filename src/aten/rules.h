// The rules of ours, one table per family. Only operators whose C++ meta kernel does not exist, or says another thing
// than eager.
#pragma once
#include "aten/operators.h"

namespace pellucid::aten {

struct RuleRow {
  const char* op;
  Rule rule;
};
struct RuleTable {
  const RuleRow* rows;
  std::size_t size;
};
template <std::size_t N>
constexpr RuleTable as_table(const RuleRow (&rows)[N]) {
  return {rows, N};
}

RuleTable copy_rules();         // rules_copy.cpp
RuleTable index_rules();        // rules_index.cpp
RuleTable norm_rules();         // rules_norm.cpp
RuleTable nn_rules();           // rules_nn.cpp
RuleTable composite_rules();    // rules_composite.cpp
RuleTable elementwise_rules();  // rules_elementwise.cpp
RuleTable reduce_rules();       // rules_reduce.cpp
RuleTable linalg_rules();       // rules_linalg.cpp

}  // namespace pellucid::aten
