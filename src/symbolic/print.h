// Expressions as Python writes them: the text, evaluated with the symbols' values and the module math, is the value.
#pragma once
#include <functional>
#include <string>

#include "symbolic/expr.h"

namespace pellucid::symbolic {

using NameOf = std::function<std::string(std::uint32_t symbol)>;

std::string print(const Expr* expr, const NameOf& name_of);
std::string print(const Value& value);

}  // namespace pellucid::symbolic
