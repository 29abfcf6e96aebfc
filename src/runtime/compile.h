// The one function that joins the steps: capture, finish, guards, hand-off to the backend, emit.
#pragma once
#include <Python.h>

#include <memory>
#include <string>

#include "base/reasons.h"
#include "py/ref.h"
#include "runtime/cache.h"

namespace pellucid::runtime {

// What became of one attempt: an entry, or the record of a stop; both when the region ends before the program does.
struct Attempt {
  std::unique_ptr<Entry> entry;
  py::Owned<> stop;       // a pellucid.errors.BreakRecord
  py::Owned<> exception;  // the exception of the program or operator that the stop is about, else empty
  About about = About::Code;
  bool is_error = false;     // pellucid.error_on_graph_break: the stop is to be raised
  bool is_refused = false;   // neither entry nor stop: a limit is reached
  bool fills_first = false;  // neither as well: the region is good for one call, which is to run eagerly instead
  bool replaces = false;     // the entry takes the place of the one that was used longest ago
  std::string where;         // identifies the place and the reason, to notice the same stop again
};

// `locals` are the arguments of `function` as bound for the code of `cache`, all owned by the caller. Throws
// PythonError for what the user must see: the backend's failure (unless config.suppress_errors is set and `fullgraph`
// is not), KeyboardInterrupt, want of memory. `may_fill`: the answer may be that the call is to run eagerly first
// (fills_first.h).
Attempt compile_region(PyFunctionObject* function, PyObject* const* locals, Cache& cache, bool fullgraph,
                       bool may_fill = false);
// Captures what that would capture, for what it tells of numbers and sizes that change, and keeps nothing else.
void observe(PyFunctionObject* function, PyObject* const* locals, Cache& cache);
// The region that starts with these open frames; `root` is the cache of the program. Neither entry nor stop: it is
// worth nothing yet (loop_lengths.h).
Attempt compile_continuation(const frames::State& state, Cache& cache, Cache& root);

// Whether the Backend says so of itself.
bool has_mark(PyObject* backend, const char* name);

// Of "__compiled_fn_3": one counter for all regions.
int next_region_number() noexcept;

// An option of pellucid.config. `name` is a literal: its address is remembered.
std::int64_t config_number(const char* name);

// "name (file.py:12)".
std::string place_of(PyFunctionObject* function);

}  // namespace pellucid::runtime
