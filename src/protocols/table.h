// Rules for callables that are not inlined, by identity of the callable: C functions, method descriptors, types, and
// the few Python functions that have a meaning of their own. The rows are in the room above (rows); their names are
// resolved once, by the first capture.
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "protocols/interpreter.h"

namespace pellucid::protocols {

using Handler = Result (*)(Interpreter&, PyObject* callable, Args args);

struct Row {
  std::string_view name;  // "math.sqrt", "builtins.list.append"
  Handler handler;
  bool in_every_build = true;  // of torch: else it may be missing
  bool moves_numbers = false;  // the handler takes numbers that are no plain ones (region/number.h)
};

// A Python function of a module that pellucid does not import: known by its names, since importing it for its identity
// would cost what pellucid is there to save.
struct NamedRow {
  std::string_view module, qualname;
  Handler handler;
};

Handler find(PyObject* callable);              // null: no rule
bool has_row_for_numbers(PyObject* callable);  // its row says that the handler takes them
// The row of this type is a rule for calling its instances, not for calling the type.
bool is_instance_rule(PyTypeObject* type);
bool is_torch_op(PyObject* callable);      // a torch callable that stays one node: leaf of the graph
std::string describe(PyObject* callable);  // "zlib.crc32()", for messages

// Fills the table; again: nothing.
void initialise_table(std::initializer_list<std::span<const Row>> tables, std::span<const NamedRow> named);
// A row for an object that was found elsewhere. `instances`: it is for calls of the instances of this type.
// `numbers`: the handler takes those that change.
void add_row(PyObject* callable, Handler handler, bool instances = false, bool numbers = false);
// What is wrong with the rows: a name that does not exist in this installation, a callable that has two.
std::span<const std::string> faults();

}  // namespace pellucid::protocols
