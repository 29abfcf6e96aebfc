#include "symbolic/expr.h"

namespace pellucid::symbolic {

Type type_of(Op op) noexcept {
  static constexpr Type kTypes[] = {
#define OP(name, type) Type::type,
#include "symbolic/ops.def"
  };
  return kTypes[static_cast<std::size_t>(op)];
}

std::string_view name_of(MathFunction function) noexcept {
  static constexpr std::string_view kNames[] = {
#define MATH(name) #name,
#include "symbolic/functions.def"
  };
  return kNames[static_cast<std::size_t>(function)];
}

}  // namespace pellucid::symbolic
