// The numbers of one capture: which are open, what was decided of them, and the guards that this needs.
#pragma once
#include <vector>

#include "guards/guard.h"
#include "region/capture.h"
#include "region/number.h"
#include "region/number_history.h"
#include "symbolic/space.h"

namespace pellucid::region {

struct Region;

class Numbers {
 public:
  explicit Numbers(Region& region) : region_(region) {}
  ~Numbers();
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  NumberPolicy policy;

  // `value` was read from there: what the program goes on with, the Number of that place or the value itself, which is
  // guarded then.
  py::Owned<> read(PyObject* value, const Source* source);
  // The same of a function's *args and **kwargs, which every call makes anew: so does the region.
  py::Owned<> read_rest(PyObject* container, const Source* source);
  // The value of a Number, which is a constant of the region from now on; anything else is itself. Borrowed.
  PyObject* plain(PyObject* object);
  // Only the type of a Number is looked at.
  void guard_type(PyObject* number);

  symbolic::Space& space() { return space_; }
  // The expression of a Number, int, float or bool; null when it has none: a closed Number, an int beyond 64 bits.
  const symbolic::Expr* expr_of(PyObject* object);
  // What function(*arguments) gave for the values at hand.
  py::Owned<> computed(PyObject* function, py::Owned<> arguments, py::Owned<> value, const symbolic::Expr* expr);
  bool decide(const symbolic::Expr* condition);  // guarded: this line relies on it
  std::uint32_t here();                          // names the place in the program, for decisions

  void finish();  // the guards of all that was decided

 private:
  struct Symbol {
    const Source* source;
    PathHash path;
    SeenNumber seen;
  };
  py::Owned<> new_number(PyObject* value);
  void settle_all();
  bool opens(PyObject* value, const Source* source, PathHash* path) const;

  Region& region_;
  symbolic::Space space_;
  std::vector<PyObject*> by_source_;  // by id; of all_
  std::vector<py::Owned<>> all_;
  std::vector<Symbol> symbols_;
  std::vector<guards::Why> places_;
};

}  // namespace pellucid::region
