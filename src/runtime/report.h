// A finished region as text, for `pellucid.show`: the words of its guards and effects, its graph and its emitted code.
#pragma once
#include <Python.h>

#include "guards/program.h"
#include "py/ref.h"
#include "region/capture.h"
#include "runtime/cache.h"
#include "trace/trace.h"

namespace pellucid::runtime {

// The guards as a list of dicts with the fields of guards::Description.
py::Owned<> guard_rows(const guards::GuardProgram& guards);
py::Owned<> guard_lines(const guards::GuardProgram& guards);  // a str with a line for each

py::Owned<> effect_rows(const region::Capture& capture);  // a text for each

// [(code, offset), …], outermost first: the instructions that the frames which are open at the end stand at.
py::Owned<> where_it_ends(const region::Capture& capture);

// Which instructions made the values on the stack of a frame that goes on at `offset`: their offsets, the bottom one
// first, -1 where it is not known. For messages: it walks the whole code.
py::Owned<> stack_makers_at(PyCodeObject* code, int offset);

// Tells the backend function that has a method `_on_region` of this one; for any other it does nothing. `name`: the
// global that the emitted code calls. `stop`: why the region ends before the program does, else null.
void report_region(const region::Capture& capture, const Entry& entry, const std::string& name, PyObject* backend,
                   const trace::BreakInfo* stop);

}  // namespace pellucid::runtime
