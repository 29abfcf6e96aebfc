// Rules for callables that are not inlined, by identity of the callable: C functions, method descriptors, types, and
// the few Python functions that have a meaning of their own. Rows are in one table per file; registry.cpp resolves
// their names once, at import.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "objects/tracer.h"

namespace pellucid::handlers {

using objects::Args;
using objects::Cat;
using objects::Continuation;
using objects::Result;
using objects::Tracer;

using Handler = Result (*)(Tracer&, PyObject* callable, Args args);

struct Row {
  std::string_view name;  // "math.sqrt", "builtins.list.append"
  Handler handler;
  bool in_every_build = true;  // of torch: else it may be missing
};

Handler find(PyObject* callable);  // null: no rule
bool is_instance_rule(
    PyTypeObject* type);  // the row of this type is a rule for calling its instances, not for calling the type
bool is_torch_op(PyObject* callable);  // a torch callable that stays one node: leaf of the graph
// The region ends here inside blocks of torch: the graph leaves those that it entered, how the state is then is
// Capture::after. False: one of them cannot be entered again.
bool leave_contexts(Tracer&);
void refuse_function_modes(Tracer&);       // that are active, but for default devices
std::string describe(PyObject* callable);  // "zlib.crc32()", for messages
void initialise();
// What is wrong with the rows: a name that does not exist in this installation, a callable that has two.
std::span<const std::string> faults();

// ---- policies, used as handlers
// Reads everything below its arguments and changes nothing: guard all, run for real.
Result pure(Tracer&, PyObject* callable, Args args);
// pure, with an encoding and errors behind the first argument
Result coded(Tracer&, PyObject* callable, Args args);
// The same, but elements may be anything: only the containers themselves are read (len, list(x), dict.keys …).
Result shallow(Tracer&, PyObject* callable, Args args);
// Changes its first argument (list.append …): works on the shadow.
Result mutates_self(Tracer&, PyObject* callable, Args args);
Result adds_to_self(Tracer&, PyObject* callable, Args args);  // the same; takes nothing out of it
Result refuse(Tracer&, PyObject* callable, Args args);

Result run_native(Tracer&, PyObject* callable, Args args);  // the real call, exceptions become the program's
// The wrong number or kind of arguments: CPython words the TypeError.
inline Result complain(Tracer& t, PyObject* callable, Args args) { return run_native(t, callable, args); }
inline bool only_positional(Args args, std::size_t least, std::size_t most) {
  return args.keyword_count() == 0 && args.size() >= least && args.size() <= most;
}
// f(argument) makes what walks the container, an iterator or view; null: it walks none.
Result walker_of(Tracer&, PyObject* f, PyObject* argument, PyObject* container);

extern const std::span<const Row> kBuiltinRows, kContainerRows, kPureRows, kTorchRows, kPythonRows, kExceptionRows,
    kClassRows, kCompilingRows, kIteratorRows;

}  // namespace pellucid::handlers
