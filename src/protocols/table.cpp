#include "protocols/table.h"

#include <unordered_map>
#include <unordered_set>

#include "protocols/policies.h"
#include "py/cpython.h"

namespace pellucid::protocols {
namespace {

struct Tables {
  std::unordered_map<PyObject*, Handler> by_identity;
  std::unordered_set<PyObject*> instance_rules;
  std::unordered_set<PyObject*> torch_ops, for_numbers;
  std::span<const NamedRow> named;
  std::vector<std::string> faults;
  PyTypeObject* tensor_base = nullptr;
  PyTypeObject* op_overload = nullptr;
  PyTypeObject* op_packet = nullptr;
};

Tables* tables = nullptr;

// "builtins.list.append": the longest importable prefix, then attributes; class attributes as the class dict holds
// them, but the function that a static, class or instance method is made of.
py::Owned<> resolve(std::string_view dotted) {
  std::string text(dotted);
  for (std::size_t cut = text.rfind('.'); cut != std::string::npos;
       cut = cut == 0 ? std::string::npos : text.rfind('.', cut - 1)) {
    PyObject* module = py::module_if_any(text.substr(0, cut).c_str());
    if (module == nullptr) continue;
    auto object = py::Owned<>::share(module);
    std::string rest = text.substr(cut + 1);
    while (object && !rest.empty()) {
      const std::size_t dot = rest.find('.');
      const std::string part = rest.substr(0, dot);
      rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
      if (PyType_Check(object.get())) {
        PyObject* found =
            py::type_lookup(reinterpret_cast<PyTypeObject*>(object.get()), py::interned(part.c_str()).get());
        if (found != nullptr && (Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type))) {
          object = py::Owned<>::steal(PyObject_GetAttrString(found, "__func__"));
        } else if (found != nullptr && PyInstanceMethod_Check(found)) {  // a method that pybind11 made
          object = py::Owned<>::share(PyInstanceMethod_GET_FUNCTION(found));
        } else {
          object = py::Owned<>::share(found);
        }
      } else {
        object = py::Owned<>::steal(PyObject_GetAttrString(object.get(), part.c_str()));
      }
    }
    if (object) return object;
    PyErr_Clear();
  }
  return {};
}

std::string_view package_of(std::string_view dotted) { return dotted.substr(0, dotted.find('.')); }

bool is_of_python(std::string_view package) {
  PyObject* const names = PySys_GetObject("stdlib_module_names");
  const auto name = py::take(PyUnicode_FromStringAndSize(package.data(), static_cast<Py_ssize_t>(package.size())));
  return names != nullptr && PySequence_Contains(names, name.get()) == 1;
}

// A program may have put a function or class of its own where the library's was, before the first capture: that is
// followed as the Python that it is.
bool is_of_its_library(PyObject* object, std::string_view row) {
  PyObject* module = nullptr;
  if (PyFunction_Check(object)) {
    module = PyDict_GetItemString(PyFunction_GET_GLOBALS(object), "__name__");
  } else if (PyType_Check(object) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE)) {
    module = PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(object)->tp_dict, "__module__");
  }
  if (module == nullptr || !PyUnicode_Check(module)) return true;
  const std::string name = py::text_of(module);
  const std::string_view here = package_of(name), there = package_of(row);
  return here == there || here == "pellucid" || here == "torch" || (is_of_python(here) && is_of_python(there));
}

void add_rows(std::span<const Row> rows) {
  for (const Row& row : rows) {
    const bool instances = row.name.starts_with("instances of ");
    auto object = resolve(instances ? row.name.substr(13) : row.name);
    if (!object) {
      if (row.in_every_build) tables->faults.push_back(std::string(row.name) + ": there is no such object");
      continue;
    }
    if (!is_of_its_library(object.get(), instances ? row.name.substr(13) : row.name)) continue;
    if (instances) tables->instance_rules.insert(object.get());
    if (row.moves_numbers) tables->for_numbers.insert(object.get());
    const auto [known, is_first] = tables->by_identity.try_emplace(object.get(), row.handler);
    if (!is_first) tables->faults.push_back(std::string(row.name) + ": a second row for this object");
    (void)object.release();  // held for the process: C functions and modules' functions
  }
}

// Every callable of a namespace of torch's own C functions, and the Python functions that are leaves of graphs.
void add_torch_namespace(const char* name, bool python_functions) {
  auto space = resolve(name);
  if (!space) {
    PyObject* module = py::module_if_any(name);
    if (module == nullptr) return;
    space = py::Owned<>::share(module);
  }
  auto names = py::take(PyObject_Dir(space.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    auto object = py::Owned<>::steal(PyObject_GetAttr(space.get(), PyList_GET_ITEM(names.get(), i)));
    if (!object) {
      PyErr_Clear();
      continue;
    }
    bool wanted = PyCFunction_Check(object.get());
    if (python_functions && PyFunction_Check(object.get())) {
      auto module = py::Owned<>::steal(PyObject_GetAttrString(object.get(), "__module__"));
      if (!module) PyErr_Clear();
      const std::string home = py::text_of(module.get());
      wanted = home == "torch.nn.functional" || home == "torch.functional" || home == "torch._tensor" ||
               home == "torch._VF" || home == "torch._jit_internal";
    }
    if (wanted) tables->torch_ops.insert(object.release());
  }
}

void fill_tables(std::initializer_list<std::span<const Row>> all) {
  for (const char* name : {"torch._C._VariableFunctions", "torch._C._nn", "torch._C._fft", "torch._C._linalg",
                           "torch._C._special", "torch._C._nested", "torch._C._sparse"}) {
    add_torch_namespace(name, false);
  }
  for (const char* name :
       {"torch.nn.functional", "torch.functional", "torch.Tensor", "torch.special", "torch.linalg", "torch.fft"})
    add_torch_namespace(name, true);
  tables->tensor_base = reinterpret_cast<PyTypeObject*>(py::import_attr("torch._C", "TensorBase").release());
  tables->op_overload = reinterpret_cast<PyTypeObject*>(py::import_attr("torch._ops", "OpOverload").release());
  tables->op_packet = reinterpret_cast<PyTypeObject*>(py::import_attr("torch._ops", "OpOverloadPacket").release());
  for (const auto rows : all) add_rows(rows);
}

}  // namespace

std::string describe(PyObject* callable) {
  const auto text_attr = [&](const char* name) {
    auto value = py::Owned<>::steal(PyObject_GetAttrString(callable, name));
    if (!value) PyErr_Clear();
    return value ? py::text_of(value.get()) : std::string();
  };
  const std::string module = text_attr("__module__"), name = text_attr("__qualname__");
  if (name.empty()) return std::string("a ") + Py_TYPE(callable)->tp_name;
  return (module.empty() || module == "builtins" ? name : module + "." + name) + "()";
}

void initialise_table(std::initializer_list<std::span<const Row>> all, std::span<const NamedRow> named) {
  if (tables != nullptr) return;
  tables = new Tables;
  tables->named = named;
  try {
    fill_tables(all);
  } catch (...) {  // an interrupt: the next compile begins anew
    tables = nullptr;
    throw;
  }
}
namespace {

// Empty: no str, or no ASCII.
std::string_view ascii_of(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text) || !PyUnicode_IS_COMPACT_ASCII(text)) return {};
  return {static_cast<const char*>(PyUnicode_DATA(text)), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text))};
}

Handler find_named(PyObject* callable) {
  if (!PyFunction_Check(callable)) return nullptr;
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  // What torch.compile gives switches the frame evaluator while it runs: called as a whole.
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (PyUnicode_CompareWithASCIIString(code->co_name, "compile_wrapper") == 0) {
    PyObject* home = PyDict_GetItemString(function->func_globals, "__name__");
    if (home != nullptr && PyUnicode_Check(home) &&
        PyUnicode_CompareWithASCIIString(home, "torch._dynamo.eval_frame") == 0)
      return refuse;
  }
  const std::string_view module = ascii_of(function->func_module);
  if (!module.starts_with("torch")) return nullptr;
  for (const NamedRow& row : tables->named) {
    if (module == row.module && ascii_of(function->func_qualname) == row.qualname) return row.handler;
  }
  return nullptr;
}

}  // namespace

Handler find(PyObject* callable) {
  if (tables == nullptr) return nullptr;  // asked before the first capture
  auto it = tables->by_identity.find(callable);
  if (it != tables->by_identity.end()) return it->second;
  return find_named(callable);
}

void add_row(PyObject* callable, Handler handler, bool instances, bool numbers) {
  if (tables->by_identity.try_emplace(callable, handler).second) Py_INCREF(callable);
  if (instances) tables->instance_rules.insert(callable);
  if (numbers) tables->for_numbers.insert(callable);
}

bool has_row_for_numbers(PyObject* callable) { return tables->for_numbers.contains(callable); }

bool is_instance_rule(PyTypeObject* type) { return tables->instance_rules.contains(reinterpret_cast<PyObject*>(type)); }

bool is_torch_op(PyObject* callable) {
  if (tables->torch_ops.contains(callable)) return true;
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
    return PyType_IsSubtype(tables->tensor_base, reinterpret_cast<PyDescrObject*>(callable)->d_type) &&
           reinterpret_cast<PyDescrObject*>(callable)->d_type != &PyBaseObject_Type;
  }
  return type == tables->op_overload || type == tables->op_packet;
}

std::span<const std::string> faults() { return tables->faults; }

}  // namespace pellucid::protocols
