#include "region/torch_module.h"

namespace pellucid::region {

std::string directory_of(const char* module) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  const auto path = py::Owned<>::steal(found == nullptr ? nullptr : PyObject_GetAttrString(found, "__file__"));
  if (!path) PyErr_Clear();
  const std::string file = path ? py::text_of(path.get()) : std::string();
  return file.substr(0, file.rfind('/') + 1);
}

const std::string& torch_directory() {
  static const std::string path = directory_of("torch");
  return path;
}

bool is_of_torch_optim(PyCodeObject* code) {
  static const std::string directory = torch_directory() + "optim/";
  return py::text_of(code->co_filename).starts_with(directory);
}

bool is_of_batch_norms(PyCodeObject* code) {
  static const std::string file = torch_directory() + "nn/modules/batchnorm.py";
  return py::text_of(code->co_filename) == file;
}

PyTypeObject* torch_size_type() {
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::import_attr("torch", "Size").release());
  return type;
}

py::Owned<> torch_operator(const char* space, const char* name) {
  const auto ops = py::import_attr("torch", "ops");
  return py::take(PyObject_GetAttrString(py::take(PyObject_GetAttrString(ops.get(), space)).get(), name));
}

std::string name_of_target(PyObject* target) {
  if (PyUnicode_Check(target)) return "Tensor." + py::text_of(target);
  auto name = py::Owned<>::steal(PyObject_GetAttrString(target, "__name__"));
  if (!name) {
    PyErr_Clear();
    return py::repr_of(target);
  }
  return py::text_of(name.get());
}

}  // namespace pellucid::region
