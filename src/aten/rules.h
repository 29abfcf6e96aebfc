// The rules of ours, one table per family. Only operators whose C++ meta kernel does not exist, or says another thing
// than eager.
#pragma once
#include "aten/operators.h"
#include "aten/table.h"

namespace pellucid::aten {

using RuleRow = RowOf<Rule>;
using RuleTable = TableOf<Rule>;

RuleTable copy_rules();         // rules_copy.cpp
RuleTable index_rules();        // rules_index.cpp
RuleTable norm_rules();         // rules_norm.cpp
RuleTable nn_rules();           // rules_nn.cpp
RuleTable composite_rules();    // rules_composite.cpp
RuleTable elementwise_rules();  // rules_elementwise.cpp
RuleTable reduce_rules();       // rules_reduce.cpp
RuleTable linalg_rules();       // rules_linalg.cpp
RuleTable recurrent_rules();    // rules_recurrent.cpp
RuleTable spectral_rules();     // rules_spectral.cpp
RuleTable quantising_rules();   // rules_quantised.cpp: what makes quantised tensors

}  // namespace pellucid::aten
