#include "hooks.h"

#include "binding/hooks.h"

namespace pellucid::binding {

void add_hooks(nanobind::module_& core) {
  hooks::add_aten(core);
  hooks::add_bytecode(core);
  hooks::add_codegen(core);
  hooks::add_graph(core);
  hooks::add_guards(core);
  hooks::add_rows(core);
  hooks::add_symbolic(core);
}

}  // namespace pellucid::binding
