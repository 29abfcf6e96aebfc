// What torch is as a Python module: where its files lie, types that are only found by name.
#pragma once

#include <Python.h>

#include <string>

namespace pellucid::region {

const std::string& torch_directory();  // of torch's own Python files, with the slash at its end
PyTypeObject* torch_size_type();       // torch.Size

}  // namespace pellucid::region
