// Makes code objects. An Assembler collects symbolic instructions (labels for jumps, objects for constants and names,
// slots for variables) and `finish` turns them into a PyCodeObject: argument prefixes, caches, stack depth, exception
// and location tables included.
//
//   Assembler code({.argcount = 1, .varnames = names("x"), .name = str("f")});
//   code.prologue();
//   code.load_global(str("len"), /*push_null=*/true);
//   code.load_fast(0);
//   code.call(1);
//   code.emit(Opcode::RETURN_VALUE);
//   auto function_code = code.finish();
#pragma once
#include <Python.h>

#include <vector>

#include "bytecode/program.h"
#include "py/ref.h"

namespace pellucid::bytecode {

struct Signature {
  int argcount =
      0;  // positional ones, positional-only included; *args and **kwargs are not counted but are in varnames
  int posonlyargcount = 0;
  int kwonlyargcount = 0;
  int flags = CO_OPTIMIZED | CO_NEWLOCALS;
  std::vector<py::Owned<>> varnames;  // arguments first, as in co_varnames
  std::vector<py::Owned<>> cellvars;  // may name arguments
  std::vector<py::Owned<>> freevars;
  py::Owned<> filename, name, qualname;  // empty: "<pellucid>", "<region>", the name
  int firstlineno = 1;
};

struct Label {
  int id = -1;
};

class Assembler {
 public:
  explicit Assembler(Signature signature);
  Assembler(const Assembler&) = delete;
  Assembler& operator=(const Assembler&) = delete;

  // Variables.
  int local(PyObject* name);        // slot of a local; a new one is added behind the others when there is none
  int deref(PyObject* name) const;  // cell or free variable for *_deref and load_closure; throws PythonError (KeyError)

  // Any instruction. `arg` as in the table; for Deref operands what deref() gave.
  void emit(Opcode op, int arg = 0);
  // For the pairs that differ in direction only, name either: the right one is chosen.
  void jump(Opcode op, Label to);
  Label new_label();
  void bind(Label label);  // here
  void set_position(const Position& position) { position_ = position; }

  // An exception in [from, to) goes to `handler`. The stack is cut to `depth`; -1: to the depth at `from`.
  // Ranges may nest: the one that was declared first wins.
  void protect(Label from, Label to, Label handler, bool lasti = false, int depth = -1);

  // Operands are interned in the code's tables.
  int const_index(PyObject* value);
  int name_index(PyObject* name);

  void prologue();  // COPY_FREE_VARS, MAKE_CELL, RESUME as the signature needs them
  void load_const(PyObject* value) { emit(Opcode::LOAD_CONST, const_index(value)); }
  void load_fast(int slot) { emit(Opcode::LOAD_FAST, slot); }
  void store_fast(int slot) { emit(Opcode::STORE_FAST, slot); }
  void load_global(PyObject* name, bool push_null = false) {
    emit(Opcode::LOAD_GLOBAL, 2 * name_index(name) + (push_null ? 1 : 0));
  }
  void store_global(PyObject* name) { emit(Opcode::STORE_GLOBAL, name_index(name)); }
  void load_attr(PyObject* name) { emit(Opcode::LOAD_ATTR, name_index(name)); }
  void store_attr(PyObject* name) { emit(Opcode::STORE_ATTR, name_index(name)); }  // value, owner -> (owner on top)
  void delete_attr(PyObject* name) { emit(Opcode::DELETE_ATTR, name_index(name)); }
  void load_method(PyObject* name) { emit(Opcode::LOAD_METHOD, name_index(name)); }
  // NULL, callable, args -> result; or method, self, args -> result behind load_method.
  // `kwnames`: tuple of names of the last arguments, or null. `nargs` counts those too.
  void call(int nargs, PyObject* kwnames = nullptr);

  int size() const noexcept { return static_cast<int>(program_.instructions.size()); }
  // Throws PythonError (ValueError) when the instructions make no sense (see stack_depths). The assembler is used up.
  py::Owned<PyCodeObject> finish();

 private:
  struct Protected {
    Label from, to, handler;
    bool lasti;
    int depth;
  };
  int index_of(Label label) const;
  void resolve_operands();
  std::vector<ExceptionRange> flatten(const std::vector<int>& owner) const;
  void lay_exceptions();

  Signature signature_;
  Program program_;
  Position position_;
  std::vector<int> labels_;  // instruction index, or -1
  std::vector<Protected> protected_;
  py::Owned<> consts_, const_of_, names_, name_of_;
};

}  // namespace pellucid::bytecode
