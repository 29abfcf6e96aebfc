#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "bytecode/instruction.h"
#include "decompile/verify.h"
#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::decompile {
namespace {

using bytecode::Opcode;
using bytecode::Operand;

constexpr int kDeepest = 60;
constexpr int kFlags = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

bool is_silent(Opcode op) {
  return op == Opcode::NOP || op == Opcode::CACHE || op == Opcode::EXTENDED_ARG || op == Opcode::RESUME ||
         op == Opcode::PRECALL;
}

// What an instruction asks before it goes on at one of two places.
enum class Test : std::uint8_t { None, Truth, IsNone, Is, In, Own };

struct Step {
  Test test = Test::None;
  bool ends = false;          // nothing comes behind it
  int next = -1, other = -1;  // where it goes on; with a test: when it holds, and when not
};

bool is_unconditional(Opcode op) {
  return op == Opcode::JUMP_FORWARD || op == Opcode::JUMP_BACKWARD || op == Opcode::JUMP_BACKWARD_NO_INTERRUPT;
}

bool may_raise(Opcode op) {
  using enum Opcode;
  switch (op) {
    case LOAD_CONST:
    case POP_TOP:
    case PUSH_NULL:
    case COPY:
    case SWAP:
    case STORE_FAST:
    case LOAD_CLOSURE:
    case MAKE_CELL:
    case KW_NAMES:
    case PUSH_EXC_INFO:
    case POP_EXCEPT:
    case IS_OP:
    case LOAD_ASSERTION_ERROR:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return false;
    default:
      return true;
  }
}

// The instructions that do something, and where each other one leads: to the next of them.
struct Shape {
  explicit Shape(PyCodeObject* of) : code(of), decoded(of) {
    for (int at = 0; at < decoded.size(); ++at) {
      index.push_back(static_cast<int>(kept.size()));
      if (!is_silent(decoded[at].op)) kept.push_back(at);
    }
    index.push_back(static_cast<int>(kept.size()));
  }
  PyCodeObject* code;
  bytecode::DecodedCode decoded;
  std::vector<int> kept, index;

  const bytecode::Instruction& operator[](std::size_t at) const { return decoded[kept[at]]; }
  int place(int decoded_index) const { return index[static_cast<std::size_t>(decoded_index)]; }
  const bytecode::ExceptionRange* handler(int at) const {
    return decoded.handler_of(kept[static_cast<std::size_t>(at)]);
  }
  int size() const { return static_cast<int>(kept.size()); }

  // The first instruction from there on that is more than a jump; -1: there is none.
  int behind_jumps(int at) const {
    for (int steps = 0; steps <= size(); ++steps) {
      if (at < 0 || at >= size()) return -1;
      const auto& ins = (*this)[static_cast<std::size_t>(at)];
      if (!is_unconditional(ins.op)) return at;
      at = place(ins.target);
    }
    return -1;
  }

  // The instruction with its test as if that were written without `not`.
  Step step(int at) const {
    using enum Opcode;
    const auto& ins = (*this)[static_cast<std::size_t>(at)];
    Step made;
    made.next = at + 1;
    switch (ins.op) {
      case RETURN_VALUE:
      case RAISE_VARARGS:
      case RERAISE:
        made.ends = true;
        return made;
      case POP_JUMP_FORWARD_IF_TRUE:
      case POP_JUMP_BACKWARD_IF_TRUE:
        return {Test::Truth, false, place(ins.target), at + 1};
      case POP_JUMP_FORWARD_IF_FALSE:
      case POP_JUMP_BACKWARD_IF_FALSE:
        return {Test::Truth, false, at + 1, place(ins.target)};
      case POP_JUMP_FORWARD_IF_NONE:
      case POP_JUMP_BACKWARD_IF_NONE:
        return {Test::IsNone, false, place(ins.target), at + 1};
      case POP_JUMP_FORWARD_IF_NOT_NONE:
      case POP_JUMP_BACKWARD_IF_NOT_NONE:
        return {Test::IsNone, false, at + 1, place(ins.target)};
      case IS_OP:
      case CONTAINS_OP: {
        if (at + 1 >= size()) return made;
        const Step behind = step(at + 1);
        if (behind.test != Test::Truth || handler(at) != handler(at + 1)) return made;
        const Test test = ins.op == IS_OP ? Test::Is : Test::In;
        return ins.arg == 0 ? Step{test, false, behind.next, behind.other}
                            : Step{test, false, behind.other, behind.next};
      }
      default:
        if (bytecode::is_jump(ins.op)) return {Test::Own, false, at + 1, place(ins.target)};
        return made;
    }
  }
};

PyObject* item(PyObject* tuple, int at) {
  return at >= 0 && at < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, at) : nullptr;
}

bool same_text(PyObject* one, PyObject* other) {
  if (one == other) return true;
  return one != nullptr && other != nullptr && PyUnicode_Check(one) && PyUnicode_Check(other) &&
         PyUnicode_Compare(one, other) == 0;
}

class Comparer {
 public:
  explicit Comparer(std::string& difference) : difference_(difference) {}

  Verified codes(PyCodeObject* one, PyCodeObject* other) {
    if (++depth_ > kDeepest) return differ("code is nested too deeply");
    const Verified found = compare(one, other);
    --depth_;
    return found;
  }

 private:
  Verified differ(const std::string& where) {
    if (difference_.empty()) difference_ = where;
    return Verified::No;
  }

  Verified compare(PyCodeObject* one, PyCodeObject* other) {
    const std::string name = py::text_of(one->co_name);
    if ((one->co_flags & kFlags) != (other->co_flags & kFlags)) return differ(name + ": other flags");
    if (one->co_argcount != other->co_argcount || one->co_posonlyargcount != other->co_posonlyargcount ||
        one->co_kwonlyargcount != other->co_kwonlyargcount) {
      return differ(name + ": other parameters");
    }
    const Shape a(one), b(other);
    const Verified in_turn = line_by_line(a, b, name);
    if (in_turn != Verified::No) return same_bytes(one, other) ? in_turn : std::min(in_turn, Verified::Normalised);
    return way_by_way(a, b);
  }

  // The instructions in the order in which they stand.
  Verified line_by_line(const Shape& a, const Shape& b, const std::string& name) {
    Verified found = Verified::Equal;
    const std::size_t count = std::min(a.kept.size(), b.kept.size());
    for (std::size_t at = 0; at < count; ++at) {
      const Verified here = instruction(a, b, at, at);
      if (here == Verified::No) {
        const auto& where = a[at];
        return differ(name + ": " + std::string(bytecode::name_of(where.op)) + " at offset " +
                      std::to_string(where.offset));
      }
      found = std::min(found, here);
    }
    if (a.kept.size() != b.kept.size()) return differ(name + ": another number of instructions");
    return same_handlers(a, b) ? found : differ(name + ": another exception table");
  }

  // ---- the steps on every way ----
  // Both are run side by side from the first instruction on. Wherever they are together they must do the same, and go
  // on together: then they do the same for ever.
  Verified way_by_way(const Shape& a, const Shape& b) {
    std::set<std::pair<int, int>> seen;
    std::vector<std::pair<int, int>> open;
    Verified found = Verified::Equivalent;
    const auto together = [&](int one, int other) {
      const std::pair<int, int> both{a.behind_jumps(one), b.behind_jumps(other)};
      if (seen.insert(both).second) open.push_back(both);
    };
    together(0, 0);
    while (!open.empty()) {
      const auto [one, other] = open.back();
      open.pop_back();
      if (one < 0 || other < 0 || seen.size() > 4 * (a.kept.size() + b.kept.size()) + 100) return Verified::No;
      const Step first = a.step(one), second = b.step(other);
      if (first.test != second.test || first.ends != second.ends) return Verified::No;
      if (first.test == Test::None || first.test == Test::Own) {
        const Verified here = instruction(a, b, static_cast<std::size_t>(one), static_cast<std::size_t>(other), false);
        if (here == Verified::No) return here;
        found = std::min(found, here);
      }
      if (may_raise(a[static_cast<std::size_t>(one)].op)) {
        const auto *here = a.handler(one), *there = b.handler(other);
        if ((here == nullptr) != (there == nullptr)) return Verified::No;
        if (here != nullptr) {
          if (here->depth != there->depth || here->lasti != there->lasti) return Verified::No;
          together(a.place(here->target), b.place(there->target));
        }
      }
      if (first.ends) continue;
      together(first.next, second.next);
      if (first.test != Test::None) together(first.other, second.other);
    }
    return found;
  }

  // `places`: jumps lead to the same place too.
  Verified instruction(const Shape& a, const Shape& b, std::size_t in_a, std::size_t in_b, bool places = true) {
    const auto unify = [](Opcode op) { return op == Opcode::JUMP_BACKWARD_NO_INTERRUPT ? Opcode::JUMP_BACKWARD : op; };
    const auto &one = a[in_a], &other = b[in_b];
    if (unify(one.op) != unify(other.op)) return Verified::No;
    const auto sure = [](bool same) { return same ? Verified::Equal : Verified::No; };
    switch (bytecode::info(one.op).operand) {
      case Operand::None:
        return Verified::Equal;
      case Operand::Const:
        return constants(item(a.code->co_consts, one.arg), item(b.code->co_consts, other.arg));
      case Operand::Name:
        return sure(same_text(item(a.code->co_names, one.arg), item(b.code->co_names, other.arg)));
      case Operand::GlobalName:
        return sure((one.arg & 1) == (other.arg & 1) &&
                    same_text(item(a.code->co_names, one.arg >> 1), item(b.code->co_names, other.arg >> 1)));
      case Operand::Local:
      case Operand::Deref:
        return sure(same_text(slot(a.code, one.arg), slot(b.code, other.arg)));
      case Operand::Forward:
      case Operand::Backward:
        return sure(!places || a.place(one.target) == b.place(other.target));
      default:
        return sure(one.arg == other.arg);
    }
  }
  static PyObject* slot(PyCodeObject* code, int at) {
    return at >= 0 && at < py::slot_count(code) ? py::slot_name(code, at) : nullptr;
  }

  Verified constants(PyObject* one, PyObject* other) {
    if (one == nullptr || other == nullptr) return Verified::No;
    if (PyCode_Check(one) && PyCode_Check(other)) {
      return codes(reinterpret_cast<PyCodeObject*>(one), reinterpret_cast<PyCodeObject*>(other));
    }
    if (one == other) return Verified::Equal;
    if (Py_TYPE(one) != Py_TYPE(other)) return Verified::No;
    if (PyUnicode_CheckExact(one)) return same_text(one, other) ? Verified::Equal : Verified::No;
    if (PyTuple_CheckExact(one)) {
      if (PyTuple_GET_SIZE(one) != PyTuple_GET_SIZE(other) || ++depth_ > kDeepest) return Verified::No;
      Verified found = Verified::Equal;
      for (int at = 0; at < PyTuple_GET_SIZE(one); ++at)
        found = std::min(found, constants(item(one, at), item(other, at)));
      --depth_;
      return found;
    }
    if (PyFrozenSet_CheckExact(one)) return sorted_reprs(one) == sorted_reprs(other) ? Verified::Equal : Verified::No;
    const bool plain =
        PyLong_CheckExact(one) || PyFloat_CheckExact(one) || PyComplex_CheckExact(one) || PyBytes_CheckExact(one);
    if (!plain) return Verified::No;
    if (PyLong_CheckExact(one)) {
      const int same = PyObject_RichCompareBool(one, other, Py_EQ);
      return same == 1 ? Verified::Equal : Verified::No;
    }
    return py::repr_of(one) == py::repr_of(other) ? Verified::Equal : Verified::No;
  }

  static std::vector<std::string> sorted_reprs(PyObject* set) {
    std::vector<std::string> found;
    const auto iterator = py::take(PyObject_GetIter(set));
    while (const auto one = py::Owned<>::steal(PyIter_Next(iterator.get()))) found.push_back(py::repr_of(one.get()));
    PyErr_Clear();
    std::sort(found.begin(), found.end());
    return found;
  }

  static bool same_handlers(const Shape& a, const Shape& b) {
    using Row = std::array<int, 5>;
    const auto rows = [](const Shape& of) {
      std::vector<Row> found;
      for (const auto& range : of.decoded.exceptions()) {
        found.push_back(
            {of.place(range.begin), of.place(range.end), of.place(range.target), range.depth, range.lasti ? 1 : 0});
      }
      return found;
    };
    return rows(a) == rows(b);
  }

  static bool same_bytes(PyCodeObject* one, PyCodeObject* other) {
    const auto first = py::take(PyCode_GetCode(one)), second = py::take(PyCode_GetCode(other));
    const auto same = PyObject_RichCompareBool(first.get(), second.get(), Py_EQ);
    return same == 1 && py::exception_table(one) == py::exception_table(other);
  }

  std::string& difference_;
  int depth_ = 0;
};

}  // namespace

Verified compare(PyCodeObject* one, PyCodeObject* other, std::string& difference) {
  return Comparer(difference).codes(one, other);
}

}  // namespace pellucid::decompile
