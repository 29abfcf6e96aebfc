// An int or float that was read from outside of the region, or computed from such ones, as the region's frames hold it.
// It is *closed* while its value is part of what is captured as soon as the program looks at it, and *open* when the
// region serves other values too. Whoever only moves it needs no guard. So it is with texts and bytes, which are closed
// always.
//
// A *late* value is what a function that raises for none of its operands gave, str() say: nobody has looked at it, and
// the emitted code computes it. Who does look makes its operands constants.
//
// The safe direction: whatever has no rule for numbers asks for the plain value, and asking records a guard. Opcodes
// and calls do so before their rules run unless their rows say otherwise; should C code get hold of one all the same,
// the slots of its type do.
#pragma once
#include <Python.h>

#include "py/ref.h"
#include "source/source.h"
#include "symbolic/expr.h"

namespace pellucid::region {

class Numbers;

struct Number {
  PyObject_HEAD PyObject* value;   // owned: what it is in this capture
  const source::Source* source;    // where it was read; null: computed
  const symbolic::Expr* expr;      // null: closed
  PyObject *function, *arguments;  // of a computed one, owned: function(*arguments) gives it, also behind the graph
  Numbers* numbers;                // null once the region is over
  int depth;                       // of the computation that gave it
  bool settled;                    // the value is guarded: it is a constant of the region
  bool of_floats;                  // it is a float that was read, or computed of one
  bool as_symbol;                  // torch's symbols give the same: of ints that were read, and what the graph gives
  bool as_tensor;                  // tensors of no dimension give the same, bit for bit
  bool of_tensor;                  // late, and computed of what item() of a tensor gives (late_items.h)
};

inline PyTypeObject* number_type = nullptr;  // made by initialise_numbers()
void initialise_numbers();

inline bool is_number(PyObject* object) noexcept { return object != nullptr && Py_TYPE(object) == number_type; }
inline Number* as_number(PyObject* object) noexcept { return reinterpret_cast<Number*>(object); }
inline bool is_open(PyObject* object) noexcept {
  return is_number(object) && as_number(object)->expr != nullptr && !as_number(object)->settled;
}

inline bool is_late(PyObject* object) noexcept {
  return is_number(object) && as_number(object)->function != nullptr && as_number(object)->expr == nullptr &&
         !as_number(object)->settled;
}

inline bool is_open_int(PyObject* object) noexcept {
  return is_open(object) && PyLong_CheckExact(as_number(object)->value);
}
// The value of this capture, which nothing guards; anything but a Number is itself. Borrowed.
inline PyObject* value_at_hand(PyObject* object) noexcept {
  return is_number(object) ? as_number(object)->value : object;
}
// Whether an item of a tuple or list is open.
bool holds_open(PyObject* sequence) noexcept;
// Of a tuple or list: its items are numbers, which are compared and converted without code of the program.
bool holds_numbers_alone(PyObject* sequence);

}  // namespace pellucid::region
