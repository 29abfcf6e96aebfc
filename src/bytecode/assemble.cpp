#include "bytecode/assemble.h"

#include <algorithm>

namespace pellucid::bytecode {
namespace {

py::Owned<> bytes_of(const std::string& text) {
  return py::take(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

py::Owned<> tuple_of(const std::vector<py::Owned<>>& items) {
  auto tuple = py::take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (std::size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), items[i].copy().release());
  return tuple;
}

// Everything PyCode_NewWithPosOnlyArgs wants.
struct Parts {
  const Signature& signature;
  PyObject *consts, *names;
  int stack_size;
  const Encoded& encoded;
};

py::Owned<PyCodeObject> make_code(const Parts& parts) {
  const Signature& s = parts.signature;
  const auto code = bytes_of(parts.encoded.code);
  const auto lines = bytes_of(parts.encoded.line_table);
  const auto exceptions = bytes_of(parts.encoded.exception_table);
  const auto varnames = tuple_of(s.varnames), freevars = tuple_of(s.freevars), cellvars = tuple_of(s.cellvars);
  return py::take(PyCode_NewWithPosOnlyArgs(
      s.argcount, s.posonlyargcount, s.kwonlyargcount, static_cast<int>(s.varnames.size()), parts.stack_size, s.flags,
      code.get(), parts.consts, parts.names, varnames.get(), freevars.get(), cellvars.get(), s.filename.get(),
      s.name.get(), s.qualname.get(), s.firstlineno, lines.get(), exceptions.get()));
}

// Index of `name` in `names`, or -1. Names are compared by value: they may come from anywhere.
int find_name(const std::vector<py::Owned<>>& names, PyObject* name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (PyUnicode_Compare(names[i].get(), name) == 0) return static_cast<int>(i);
  }
  return -1;
}

// Position of `key` in the ordered table `list`, appending `value` when it is new.
int intern(PyObject* list, PyObject* index_of, PyObject* key, PyObject* value) {
  if (PyObject* known = PyDict_GetItemWithError(index_of, key)) return static_cast<int>(PyLong_AsLong(known));
  if (PyErr_Occurred() != nullptr) py::throw_pending();
  const Py_ssize_t index = PyList_GET_SIZE(list);
  const auto number = py::take(PyLong_FromSsize_t(index));
  py::check(PyDict_SetItem(index_of, key, number.get()));
  py::check(PyList_Append(list, value));
  return static_cast<int>(index);
}

int deepest_of(const Program& program) { return max_stack_depth(program, stack_depths(program)); }

Opcode turned(Opcode op) {
  switch (op) {
    case Opcode::JUMP_FORWARD:
      return Opcode::JUMP_BACKWARD;
    case Opcode::POP_JUMP_FORWARD_IF_FALSE:
      return Opcode::POP_JUMP_BACKWARD_IF_FALSE;
    case Opcode::POP_JUMP_FORWARD_IF_TRUE:
      return Opcode::POP_JUMP_BACKWARD_IF_TRUE;
    case Opcode::POP_JUMP_FORWARD_IF_NONE:
      return Opcode::POP_JUMP_BACKWARD_IF_NONE;
    case Opcode::POP_JUMP_FORWARD_IF_NOT_NONE:
      return Opcode::POP_JUMP_BACKWARD_IF_NOT_NONE;
    case Opcode::JUMP_BACKWARD:
      return Opcode::JUMP_FORWARD;
    case Opcode::POP_JUMP_BACKWARD_IF_FALSE:
      return Opcode::POP_JUMP_FORWARD_IF_FALSE;
    case Opcode::POP_JUMP_BACKWARD_IF_TRUE:
      return Opcode::POP_JUMP_FORWARD_IF_TRUE;
    case Opcode::POP_JUMP_BACKWARD_IF_NONE:
      return Opcode::POP_JUMP_FORWARD_IF_NONE;
    case Opcode::POP_JUMP_BACKWARD_IF_NOT_NONE:
      return Opcode::POP_JUMP_FORWARD_IF_NOT_NONE;
    default:
      return op;  // goes one way only: encode() complains if it is the wrong one
  }
}

}  // namespace

Assembler::Assembler(Signature signature)
    : signature_(std::move(signature)),
      consts_(py::take(PyList_New(0))),
      const_of_(py::take(PyDict_New())),
      names_(py::take(PyList_New(0))),
      name_of_(py::take(PyDict_New())) {
  if (!signature_.filename) signature_.filename = py::str("<pellucid>");
  if (!signature_.name) signature_.name = py::str("<region>");
  if (!signature_.qualname) signature_.qualname = signature_.name.copy();
  position_ = {signature_.firstlineno, signature_.firstlineno, -1, -1};
  const_index(Py_None);  // co_consts[0] is the docstring when it is a str
}

int Assembler::local(PyObject* name) {
  const int known = find_name(signature_.varnames, name);
  if (known >= 0) return known;
  signature_.varnames.push_back(py::Owned<>::share(name));
  return static_cast<int>(signature_.varnames.size()) - 1;
}

int Assembler::deref(PyObject* name) const {
  const int cell = find_name(signature_.cellvars, name);
  if (cell >= 0) return cell;
  const int free = find_name(signature_.freevars, name);
  if (free >= 0) return static_cast<int>(signature_.cellvars.size()) + free;
  PyErr_SetObject(PyExc_KeyError, name);
  py::throw_pending();
}

void Assembler::emit(Opcode op, int arg) {
  Instruction instruction;
  instruction.op = op;
  instruction.arg = arg;
  program_.instructions.push_back(instruction);
  program_.positions.push_back(position_);
}

void Assembler::jump(Opcode op, Label to) {
  const bool back = labels_[static_cast<std::size_t>(to.id)] >= 0;
  const Operand wanted = back ? Operand::Backward : Operand::Forward;
  emit(info(op).operand == wanted ? op : turned(op));
  program_.instructions.back().target = to.id;  // a label until finish()
}

Label Assembler::new_label() {
  labels_.push_back(-1);
  return {static_cast<int>(labels_.size()) - 1};
}

void Assembler::bind(Label label) { labels_[static_cast<std::size_t>(label.id)] = size(); }

void Assembler::protect(Label from, Label to, Label handler, bool lasti, int depth) {
  protected_.push_back({from, to, handler, lasti, depth});
}

int Assembler::const_index(PyObject* value) {
  // Tells 1 from 1.0 and True; code of the same text may be two objects.
  const auto key = py::take(PyCode_Check(value) ? PyLong_FromVoidPtr(value) : _PyCode_ConstantKey(value));
  return intern(consts_.get(), const_of_.get(), key.get(), value);
}

int Assembler::name_index(PyObject* name) { return intern(names_.get(), name_of_.get(), name, name); }

void Assembler::prologue() {
  if (!signature_.freevars.empty()) emit(Opcode::COPY_FREE_VARS, static_cast<int>(signature_.freevars.size()));
  for (std::size_t cell = 0; cell < signature_.cellvars.size(); ++cell) emit(Opcode::MAKE_CELL, static_cast<int>(cell));
  emit(Opcode::RESUME);
}

void Assembler::call(int nargs, PyObject* kwnames) {
  if (kwnames != nullptr && PyTuple_GET_SIZE(kwnames) > 0) emit(Opcode::KW_NAMES, const_index(kwnames));
  emit(Opcode::PRECALL, nargs);
  emit(Opcode::CALL, nargs);
}

int Assembler::index_of(Label label) const {
  const int index = label.id < 0 ? -1 : labels_[static_cast<std::size_t>(label.id)];
  if (index >= 0) return index;
  PyErr_SetString(PyExc_ValueError, "a label was used and never bound");
  py::throw_pending();
}

// Labels become indexes, and deref numbers become slots of localsplus, now that all locals are known.
void Assembler::resolve_operands() {
  std::vector<int> slots;
  auto next = static_cast<int>(signature_.varnames.size());
  for (const auto& cell : signature_.cellvars) {
    const int argument = find_name(signature_.varnames, cell.get());
    slots.push_back(argument >= 0 ? argument : next++);
  }
  for (std::size_t i = 0; i < signature_.freevars.size(); ++i) slots.push_back(next++);
  for (Instruction& instruction : program_.instructions) {
    if (is_jump(instruction.op)) instruction.target = index_of({instruction.target});
    if (info(instruction.op).operand == Operand::Deref)
      instruction.arg = slots.at(static_cast<std::size_t>(instruction.arg));
  }
}

// One range for each run of instructions with the same owner: the table knows no nesting.
std::vector<ExceptionRange> Assembler::flatten(const std::vector<int>& owner) const {
  std::vector<ExceptionRange> ranges;
  for (int begin = 0; begin < size();) {
    const int at = owner[static_cast<std::size_t>(begin)];
    int end = begin + 1;
    while (end < size() && owner[static_cast<std::size_t>(end)] == at) ++end;
    if (at >= 0) {
      const Protected& range = protected_[static_cast<std::size_t>(at)];
      if (range.depth >= 0) ranges.push_back({begin, end, index_of(range.handler), range.depth, range.lasti});
    }
    begin = end;
  }
  return ranges;
}

void Assembler::lay_exceptions() {
  std::vector<int> owner(program_.instructions.size(), -1);
  for (std::size_t p = protected_.size(); p-- > 0;) {
    const auto begin = owner.begin() + index_of(protected_[p].from), end = owner.begin() + index_of(protected_[p].to);
    std::fill(begin, std::max(begin, end), static_cast<int>(p));
  }
  // The depth at the start of a range inside a handler is known once that handler's own range is.
  for (bool found = true; found;) {
    found = false;
    program_.exceptions = flatten(owner);
    const std::vector<int> depths = stack_depths(program_);
    for (Protected& range : protected_) {
      if (range.depth >= 0 || index_of(range.from) >= size()) continue;
      range.depth = depths[static_cast<std::size_t>(index_of(range.from))];
      found = found || range.depth >= 0;
    }
  }
}

py::Owned<PyCodeObject> Assembler::finish() {
  resolve_operands();
  lay_exceptions();
  const int stack_size = deepest_of(program_);
  const Encoded encoded = encode(program_, signature_.firstlineno);
  const auto consts = py::take(PyList_AsTuple(consts_.get())), names = py::take(PyList_AsTuple(names_.get()));
  return make_code({signature_, consts.get(), names.get(), stack_size, encoded});
}

}  // namespace pellucid::bytecode
