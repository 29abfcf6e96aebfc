// The numbers and sizes of a finished capture that may be others at the next call, for backends that compile for all of
// them: what is known of each, and what such a backend relies on beside.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "aten/size_scope.h"
#include "guards/condition.h"
#include "guards/guard.h"
#include "region/number_history.h"
#include "source/source.h"

namespace pellucid::region {

struct OpenNumbers {
  struct Symbol {
    const source::Source* source;  // null: the graph gives it
    const symbolic::Expr* expr;
    PathHash path;
    bool must_stay_open;  // the program says that it changes
  };

  std::shared_ptr<aten::SizeScope> scope;  // null: there are none, or no backend compiles for them
  std::vector<Symbol> symbols;             // by number
  // Part of the capture's guards. It asks for nothing until the backend does. Null: all that is open the graph gives.
  std::shared_ptr<guards::Condition> of_backend;

  bool is_empty() const noexcept { return symbols.empty(); }

  // ([(number, source, hint, least, most), …], [condition, …]): the ints that are open and the floats that the graph
  // gives, and what the capture decided by the ints as Python text with the names s0, s1, …, which the fakes' sizes
  // have too. An end of the range beyond 64 bits is None, and so are those of a float.
  py::Owned<> described() const;
  // The backend relies on these conditions, which are true here: ("<=", ("s", 0), 128). None: one has no such words, so
  // every number is what it is now. Gives the symbols that have one value from now on.
  std::vector<const Symbol*> require(PyObject* conditions);
};

// A size that the program says changes would be a constant: `condition` leaves it one value, for `why`.
[[noreturn]] void throw_constraint_violation(const source::Source* size, const symbolic::Expr* symbol,
                                             const std::string& condition, const guards::Why& why);

// The function of torch that gives the same of ints, and takes a torch.SymInt too; the function itself where that does.
// Borrowed.
PyObject* symbolic_twin(PyObject* function);

}  // namespace pellucid::region
