// The rule of each opcode: one row of opcodes.def, one do_NAME.
#include "trace/rules/rules.h"

namespace pellucid::trace {

Next do_EXTENDED_ARG(Executor&, Frame&, int) {
  throw GraphBreak(Reason::Internal, {{"detail", "EXTENDED_ARG is folded by the loop"}});
}

namespace {

Next do_unknown(Executor&, Frame&, int) {
  throw GraphBreak(Reason::UnsupportedOpcode, {{"opcode", "that this version of CPython does not have"}});
}

constexpr auto make_table() {
  struct Table {
    Rule rules[256];
  } table{};
  for (Rule& rule : table.rules) rule = do_unknown;
#define OP(number, name, ...) table.rules[number] = do_##name;
#include "bytecode/opcodes.def"
  return table;
}
constexpr auto kTable = make_table();

}  // namespace

Rule rule_of(bytecode::Opcode op) noexcept { return kTable.rules[static_cast<std::uint8_t>(op)]; }

}  // namespace pellucid::trace
