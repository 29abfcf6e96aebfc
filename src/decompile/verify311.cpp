#include <algorithm>
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
    Verified found = Verified::Equal;
    const std::size_t count = std::min(a.kept.size(), b.kept.size());
    for (std::size_t at = 0; at < count; ++at) {
      const Verified here = instruction(a, b, at);
      if (here == Verified::No) {
        return differ(name + ": " + std::string(bytecode::name_of(a[at].op)) + " at offset " +
                      std::to_string(a[at].offset));
      }
      found = std::min(found, here);
    }
    if (a.kept.size() != b.kept.size()) return differ(name + ": another number of instructions");
    if (!same_handlers(a, b)) return differ(name + ": another exception table");
    return same_bytes(one, other) ? found : std::min(found, Verified::Normalised);
  }

  Verified instruction(const Shape& a, const Shape& b, std::size_t at) {
    const auto unify = [](Opcode op) { return op == Opcode::JUMP_BACKWARD_NO_INTERRUPT ? Opcode::JUMP_BACKWARD : op; };
    const auto &one = a[at], &other = b[at];
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
        return sure(a.place(one.target) == b.place(other.target));
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
