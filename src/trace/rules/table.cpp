// The rule of each opcode: one row of opcodes.def, one do_NAME where its policy is to run symbolically.
#include "trace/rules/rules.h"

namespace pellucid::trace {

void refuse(bytecode::Opcode op) {
  const bytecode::OpInfo& row = bytecode::info(op);
  throw GraphBreak(
      Reason::UnsupportedOpcode,
      {{"statement",
        std::string(row.words.empty() ? "the instruction " : "").append(row.words.empty() ? row.name : row.words)}});
}

namespace {

Next do_unknown(Executor&, Frame&, int) {
  throw GraphBreak(Reason::UnsupportedOpcode,
                   {{"statement", "an instruction that this version of CPython does not have"}});
}
template <bytecode::Opcode op>
Next do_refuse(Executor&, Frame&, int) {
  refuse(op);
}

constexpr auto make_table() {
  using bytecode::Opcode;
  struct Table {
    Rule rules[256];
  } table{};
  for (Rule& rule : table.rules) rule = do_unknown;
// Only the rules of symbolic rows are defined.
#define OP(number, name, ...)                                                      \
  if constexpr (bytecode::info(Opcode::name).policy == bytecode::Policy::Symbolic) \
    table.rules[number] = do_##name;                                               \
  else                                                                             \
    table.rules[number] = do_refuse<Opcode::name>;
#include "bytecode/opcodes.def"
  return table;
}
constexpr auto kTable = make_table();

}  // namespace

Rule rule_of(bytecode::Opcode op) noexcept { return kTable.rules[static_cast<std::uint8_t>(op)]; }

}  // namespace pellucid::trace
