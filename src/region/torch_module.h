// What torch is as a Python module: where its files lie, types that are only found by name.
#pragma once

#include <Python.h>

#include <string>

#include "py/ref.h"

namespace pellucid::region {

// Of the files of a module that is imported, with the slash at its end; "": it is not, or has no file.
std::string directory_of(const char* module);
const std::string& torch_directory();  // of torch's own Python files, with the slash at its end
bool is_of_torch_optim(PyCodeObject* code);
bool is_of_batch_norms(PyCodeObject* code);
PyTypeObject* torch_size_type();                                  // torch.Size
py::Owned<> torch_operator(const char* space, const char* name);  // torch.ops.<space>.<name>
std::string name_of_target(PyObject* target);                     // a function, or the name of a method of tensors

}  // namespace pellucid::region
