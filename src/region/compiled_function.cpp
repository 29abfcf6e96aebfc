#include "region/compiled_function.h"

#include <string_view>

#include "py/cpython.h"
#include "py/ref.h"
#include "region/names.h"

namespace pellucid::region {

OriginalOf original_of_compiled_hook = nullptr;

PyObject* disabled_by_import(PyFunctionObject* function) noexcept {
  PyObject* marks = function->func_dict;
  if (marks == nullptr) return nullptr;
  static PyObject* const message = py::interned("_torchdynamo_disable_msg").release();
  PyObject* reason = py::dict_get_str(marks, message);
  if (reason == nullptr || !PyUnicode_Check(reason)) return nullptr;
  const char* utf8 = PyUnicode_AsUTF8(reason);
  if (utf8 == nullptr) {  // no text of torch
    PyErr_Clear();
    return nullptr;
  }
  const std::string_view text = utf8;
  if (!text.starts_with("optimizer <class 'torch.optim.") && text != "don't trace into fused optimizer") return nullptr;
  return py::dict_get_str(marks, names()._torchdynamo_orig_callable);
}

}  // namespace pellucid::region
