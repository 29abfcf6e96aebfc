// A capture as bytes, and what becomes of them in another process: the guards as a program, the graph, the plan of the
// function that stands for the region. Bytes are data: what they name is looked up in dicts, and what graph and plan
// may call is C code of torch and of the builtin containers.
#pragma once
#include <Python.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/plan.h"
#include "region/capture.h"
#include "runtime/kept_objects.h"
#include "runtime/undo_plan.h"

namespace pellucid::runtime {

// Throws Unkept. Of a finished graph, before the guards are given away.
std::string kept_bytes(const region::Capture& capture, PyObject* const* locals);

// A capture that was read. It knows the values that its sources lead to in this call.
struct KeptRegion {
  region::Capture capture;
  codegen::Plan plan;
  UndoPlan undo;
};

// Throws Miss. The guards are not checked yet, but what they know of objects is.
std::unique_ptr<KeptRegion> read_region(std::string_view bytes, PyFunctionObject* function, PyObject* const* locals);

}  // namespace pellucid::runtime
