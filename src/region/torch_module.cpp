#include "region/torch_module.h"

#include "py/ref.h"

namespace pellucid::region {

const std::string& torch_directory() {
  static const std::string path = [] {
    const std::string file = py::text_of(py::import_attr("torch", "__file__").get());
    return file.substr(0, file.rfind('/') + 1);
  }();
  return path;
}

PyTypeObject* torch_size_type() {
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::import_attr("torch", "Size").release());
  return type;
}

}  // namespace pellucid::region
