#include "source/source.h"

#include <structmember.h>

#include "aten/aten.h"
#include "aten/function_modes.h"
#include "aten/torch_function.h"
#include "frames/generators.h"
#include "py/cpython.h"
#include "py/interrupts.h"
#include "py/iterators.h"
#include "py/native_lookup.h"
#include "py/numpy_array.h"

namespace pellucid::source {
namespace {

bool has_base(Step step) noexcept {
  return step != Step::Local && step != Step::Free && step != Step::Const && step != Step::Drawn;
}

// Keys that may stand for each other: their hash and equality are C code and cannot fail.
bool is_plain_key(PyObject* key) noexcept {
  PyTypeObject* type = Py_TYPE(key);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (!is_plain_key(PyTuple_GET_ITEM(key, i))) return false;
    }
    return true;
  }
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || key == Py_None;
}

PyTypeObject* deque_type() {
  static PyTypeObject* type = [] {  // lives as long as the interpreter
    const py::InterruptsWait wait;
    PyObject* found = py::import_attr("collections", "deque").release();
    return reinterpret_cast<PyTypeObject*>(found);
  }();
  return type;
}

bool is_deque(PyObject* object) noexcept {
  try {
    return PyObject_TypeCheck(object, deque_type()) != 0;
  } catch (const py::PythonError&) {
    return false;
  }
}

PyObject* load_item(PyObject* base, std::int64_t index, py::Owned<>& fresh) noexcept {
  if (index < 0) return nullptr;
  if (PyList_Check(base)) return index < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, index) : nullptr;
  if (PyTuple_Check(base)) return index < PyTuple_GET_SIZE(base) ? PyTuple_GET_ITEM(base, index) : nullptr;
  if (!is_deque(base) || index >= Py_SIZE(base)) return nullptr;
  fresh = py::Owned<>::steal(deque_type()->tp_as_sequence->sq_item(base, index));
  if (!fresh) PyErr_Clear();
  return fresh.get();
}

PyObject* load_member(PyObject* base, PyObject* name, py::Owned<>& fresh) noexcept {
  PyObject* descriptor = py::type_lookup(Py_TYPE(base), name);
  if (descriptor == nullptr) return nullptr;
  const bool member = Py_IS_TYPE(descriptor, &PyMemberDescr_Type);
  if (!member && !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) return nullptr;
  if (member) {  // a slot that is an object: the object is in there, no need to make anything
    const PyMemberDef* def = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    const bool is_object = def->type == T_OBJECT_EX || def->type == T_OBJECT;
    if (is_object && PyObject_TypeCheck(base, PyDescr_TYPE(descriptor)) && (def->flags & PY_AUDIT_READ) == 0) {
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(base) + def->offset);
      return value == nullptr && def->type == T_OBJECT ? Py_None : value;
    }
  }
  const auto get = [&] {
    return py::Owned<>::steal(
        Py_TYPE(descriptor)->tp_descr_get(descriptor, base, reinterpret_cast<PyObject*>(Py_TYPE(base))));
  };
  if (aten::is_tensor(base)) {
    const aten::NoTorchFunctions unheard;
    fresh = get();
  } else {
    fresh = get();
  }
  if (!fresh) PyErr_Clear();
  return fresh.get();
}

std::string name_attr(PyObject* object, const char* attr) {
  const py::InterruptsWait wait;
  auto text = py::Owned<>::steal(PyObject_GetAttrString(object, attr));
  if (!text) PyErr_Clear();
  return py::text_of(text.get());
}

std::string root_text_of(const Source* root) {
  switch (root->step) {
    case Step::Local:
      return std::string("L[").append(py::repr_of(root->operand.get())).append("]");
    case Step::Free:
      return std::string("F[").append(py::repr_of(root->operand.get())).append("]");
    case Step::Drawn:
      return "DRAWN";
    default:
      break;
  }
  PyObject* object = root->operand.get();
  if (object == nullptr) return "C[?]";
  if (!module_of_namespace(object).empty()) return "G";
  return std::string("C[").append(describe(object)).append("]");
}

}  // namespace

std::size_t SourceTable::Hash::operator()(const Key& k) const noexcept {
  auto mix = [](std::size_t seed, std::size_t value) { return (seed ^ value) * 0x9E3779B97F4A7C15ull; };
  std::size_t h = mix(static_cast<std::size_t>(k.step), reinterpret_cast<std::size_t>(k.base) >> 4);
  h = mix(h ^ (h >> 29), reinterpret_cast<std::size_t>(k.operand) >> 4);
  h = mix(h ^ (h >> 31), static_cast<std::size_t>(k.index));
  return h ^ (h >> 32);
}

const Source* SourceTable::intern(Step step, const Source* base, PyObject* operand, std::int64_t index) {
  auto [place, fresh] = by_key_.try_emplace(Key{step, base, operand, index}, nullptr);
  if (!fresh) return place->second;
  auto made =
      std::make_unique<Source>(Source{step, base, py::Owned<>::share(operand), index, static_cast<int>(all_.size())});
  place->second = made.get();
  all_.push_back(std::move(made));
  return place->second;
}

py::Owned<> SourceTable::canonical(PyObject* key) {
  if (PyUnicode_CheckExact(key)) return py::interned(key);
  if (!is_plain_key(key)) return py::Owned<>::share(key);
  if (!keys_) keys_ = py::take(PyDict_New());
  auto typed = py::take(PyTuple_Pack(2, reinterpret_cast<PyObject*>(Py_TYPE(key)), key));
  PyObject* first = PyDict_SetDefault(keys_.get(), typed.get(), key);
  if (first == nullptr) py::throw_pending();
  return py::Owned<>::share(first);
}

const Source* SourceTable::local(int slot, PyObject* name) {
  return intern(Step::Local, nullptr, canonical(name).get(), slot);
}
const Source* SourceTable::free(int index, PyObject* name) {
  return intern(Step::Free, nullptr, canonical(name).get(), index);
}
const Source* SourceTable::constant(PyObject* object) { return intern(Step::Const, nullptr, object, -1); }
const Source* SourceTable::drawn() { return intern(Step::Drawn, nullptr, nullptr, -1); }
const Source* SourceTable::instance_attr(const Source* base, PyObject* name) {
  return intern(Step::InstanceAttr, base, canonical(name).get(), -1);
}
const Source* SourceTable::dict_of(const Source* base) { return intern(Step::DictOf, base, nullptr, -1); }
const Source* SourceTable::item(const Source* base, std::int64_t index) {
  return intern(Step::Item, base, nullptr, index);
}
const Source* SourceTable::dict_item(const Source* base, PyObject* key) {
  if (base->step == Step::DictOf && PyUnicode_CheckExact(key)) return instance_attr(base->base, key);
  return intern(Step::DictItem, base, canonical(key).get(), -1);
}
const Source* SourceTable::member(const Source* base, PyObject* name) {
  return intern(Step::Member, base, canonical(name).get(), -1);
}
const Source* SourceTable::cell_contents(const Source* base) { return intern(Step::CellContents, base, nullptr, -1); }
const Source* SourceTable::size_of(const Source* tensor, std::int64_t dim) {
  return intern(Step::Size, tensor, nullptr, dim);
}
const Source* SourceTable::stride_of(const Source* tensor, std::int64_t dim) {
  return intern(Step::Stride, tensor, nullptr, dim);
}
const Source* SourceTable::plain(const Source* tensor) { return intern(Step::Plain, tensor, nullptr, 0); }
const Source* SourceTable::over_array(const Source* array) { return intern(Step::OverArray, array, nullptr, 0); }
const Source* SourceTable::function_mode(std::int64_t index) {
  return intern(Step::FunctionMode, constant(py::module_named("torch.overrides")), nullptr, index);
}
const Source* SourceTable::part(const Source* iterator, std::int64_t index) {
  return intern(Step::Part, iterator, nullptr, index);
}
const Source* SourceTable::ahead(const Source* iterator, std::int64_t count) {
  return intern(Step::Ahead, iterator, nullptr, count);
}
const Source* SourceTable::value_ahead(const Source* iterator, std::int64_t count) {
  return intern(Step::ValueAhead, iterator, nullptr, count);
}

std::int64_t native_length(PyObject* object) noexcept {
  if (PyList_Check(object) || PyTuple_Check(object)) return Py_SIZE(object);
  if (PyDict_Check(object)) return reinterpret_cast<PyDictObject*>(object)->ma_used;
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  return is_deque(object) ? Py_SIZE(object) : -1;
}

bool load_number(const Source& source, PyObject* tensor, std::int64_t* out) noexcept {
  if (source.step == Step::Stride) return aten::stride_at(tensor, source.index, out);
  return aten::size_at(tensor, source.index, out) || py::size_of_array(tensor, source.index, out);
}

namespace {

PyObject* load_over_array(PyObject* array, py::Owned<>& fresh) noexcept {
  try {
    static PyObject* const over = py::import_attr("pellucid._numpy", "tensor_over").release();
    fresh = py::take(PyObject_CallOneArg(over, array));
  } catch (const py::PythonError&) {
    return nullptr;
  }
  return fresh.get();
}

PyObject* load_plain(PyObject* tensor, py::Owned<>& fresh) noexcept {
  if (!aten::is_tensor(tensor)) return nullptr;
  try {
    fresh = aten::plain_alias(tensor);
  } catch (const py::PythonError&) {
    return nullptr;
  }
  return fresh.get();
}

}  // namespace

PyObject* load_step(const Source& source, PyObject* base, PyObject* const* locals, PyObject* closure,
                    py::Owned<>& fresh) noexcept {
  if (base == nullptr && has_base(source.step)) return nullptr;
  switch (source.step) {
    case Step::Local:
      return locals == nullptr ? nullptr : locals[source.index];
    case Step::Free:
      if (closure == nullptr || source.index >= PyTuple_GET_SIZE(closure)) return nullptr;
      return PyTuple_GET_ITEM(closure, source.index);
    case Step::Const:
      return source.operand.get();
    case Step::Drawn:
      return nullptr;
    case Step::InstanceAttr:
      return py::native_instance_attr(base, source.operand.get());
    case Step::DictOf:
      return py::make_instance_dict(base);  // the program asked for the dict, so making it changes nothing
    case Step::Item:
      return load_item(base, source.index, fresh);
    case Step::DictItem:
      return PyDict_Check(base) ? py::native_dict_get(base, source.operand.get()) : nullptr;
    case Step::Member:
      return load_member(base, source.operand.get(), fresh);
    case Step::CellContents:
      return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case Step::Size:
    case Step::Stride: {
      std::int64_t number = 0;
      if (!load_number(source, base, &number)) return nullptr;
      fresh = py::Owned<>::steal(PyLong_FromLongLong(number));
      if (!fresh) PyErr_Clear();
      return fresh.get();
    }
    case Step::OverArray:
      return load_over_array(base, fresh);
    case Step::Plain:
      return load_plain(base, fresh);
    case Step::FunctionMode:
      return aten::function_mode_at(source.index);
    case Step::Part:
      if (PyGen_CheckExact(base)) return frames::generator_slot(base, source.index);
      return py::iterator_part(base, source.index, fresh);
    case Step::Ahead:
    case Step::ValueAhead:
      return py::iterator_ahead(base, source.index, source.step == Step::ValueAhead, fresh);
  }
  return nullptr;
}

namespace {

py::Owned<> step_of(const Source& source, PyObject* base) {
  py::Owned<> fresh;
  PyObject* value = load_step(source, base, nullptr, nullptr, fresh);
  return fresh ? std::move(fresh) : py::Owned<>::share(value);
}

template <Step step>
PyObject* take_step(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
  constexpr const char* what = step == Step::FunctionMode                  ? "torch.overrides"
                               : step == Step::OverArray                   ? "an array"
                               : is_of_layout(step) || step == Step::Plain ? "a tensor"
                                                                           : "an iterator";
  constexpr const char* missing = is_of_layout(step)           ? "pellucid: a tensor has no plain dim %lld"
                                  : step == Step::OverArray    ? "pellucid: no tensor over this array (%lld)"
                                  : step == Step::Plain        ? "pellucid: no alias of this tensor (%lld)"
                                  : step == Step::FunctionMode ? "pellucid: there is no torch function mode %lld"
                                                               : "pellucid: an iterator has no item %lld ahead";
  return py::enter([&]() -> py::Owned<> {
    const long long index = count == 2 ? PyLong_AsLongLong(args[1]) : -1;
    if (index < 0) {
      if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_TypeError, "expected %s and an index", what);
      py::throw_pending();
    }
    auto value = step_of(Source{step, nullptr, {}, index, 0}, args[0]);
    if (!value) py::check((PyErr_Format(PyExc_LookupError, missing, index), -1));
    return value;
  });
}

PyMethodDef kStepFunctions[] = {
    {"PART", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::Part>)), METH_FASTCALL,
     nullptr},
    {"AHEAD", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::Ahead>)), METH_FASTCALL,
     nullptr},
    {"VALUE_AHEAD", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::ValueAhead>)),
     METH_FASTCALL, nullptr},
    {"size_of", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::Size>)), METH_FASTCALL,
     nullptr},
    {"stride_of", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::Stride>)), METH_FASTCALL,
     nullptr},
    {"plain_alias", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::Plain>)), METH_FASTCALL,
     nullptr},
    {"TENSOR_OVER", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::OverArray>)),
     METH_FASTCALL, nullptr},
    {"FUNCTION_MODE", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(take_step<Step::FunctionMode>)),
     METH_FASTCALL, nullptr},
};

PyMethodDef* step_function_of(Step step) noexcept {
  switch (step) {
    case Step::Part:
      return &kStepFunctions[0];
    case Step::Ahead:
      return &kStepFunctions[1];
    case Step::ValueAhead:
      return &kStepFunctions[2];
    case Step::Size:
      return &kStepFunctions[3];
    case Step::Stride:
      return &kStepFunctions[4];
    case Step::Plain:
      return &kStepFunctions[5];
    case Step::OverArray:
      return &kStepFunctions[6];
    case Step::FunctionMode:
      return &kStepFunctions[7];
    default:
      return nullptr;
  }
}

}  // namespace

const char* step_function_name(Step step) noexcept {
  const PyMethodDef* function = step_function_of(step);
  return function == nullptr ? nullptr : function->ml_name;
}

py::Owned<> step_function(Step step) { return py::take(PyCFunction_New(step_function_of(step), nullptr)); }

py::Owned<> evaluate_step(const Source* source, PyObject* base_value, PyObject* const* locals, PyObject* closure) {
  py::Owned<> fresh;
  PyObject* value = load_step(*source, base_value, locals, closure, fresh);
  return fresh ? std::move(fresh) : py::Owned<>::share(value);
}

py::Owned<> evaluate(const Source* source, PyObject* const* locals, PyObject* closure) {
  std::vector<const Source*> path;
  for (const Source* s = source; s != nullptr; s = s->base) path.push_back(s);
  py::Owned<> value;
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    value = evaluate_step(*step, value.get(), locals, closure);
    if (!value) break;
  }
  return value;
}

std::string module_of_namespace(PyObject* object) {
  if (!PyDict_CheckExact(object)) return {};
  PyObject* name = PyDict_GetItemString(object, "__name__");
  if (name == nullptr || !PyUnicode_CheckExact(name)) return {};
  PyObject* module = py::native_dict_get(PyImport_GetModuleDict(), name);
  if (module == nullptr || !PyModule_Check(module) || PyModule_GetDict(module) != object) return {};
  return py::text_of(name);
}

std::string describe(PyObject* object) {
  if (object == nullptr) return "nothing";
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return type->tp_name;
    PyObject* module = type->tp_dict == nullptr ? nullptr : PyDict_GetItemString(type->tp_dict, "__module__");
    const std::string name = py::text_of(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
    const std::string prefix = py::text_of(module);
    return prefix.empty() || prefix == "builtins" ? name : prefix + '.' + name;
  }
  if (PyModule_Check(object)) {
    PyObject* name = PyDict_GetItemString(PyModule_GetDict(object), "__name__");
    return py::text_of(name);
  }
  if (PyFunction_Check(object)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    const std::string module = py::text_of(function->func_module);
    const std::string name = py::text_of(function->func_qualname);
    return module.empty() ? name : module + '.' + name;
  }
  if (PyCFunction_Check(object)) return name_attr(object, "__qualname__");
  if (is_plain_key(object) || PyComplex_CheckExact(object) || object == Py_Ellipsis) return py::repr_of(object);
  const std::string module = module_of_namespace(object);
  if (!module.empty()) return module + ".__dict__";
  char address[32];
  PyOS_snprintf(address, sizeof address, " at %p>", static_cast<void*>(object));
  return std::string("<").append(describe(reinterpret_cast<PyObject*>(Py_TYPE(object)))).append(address);
}

namespace {

// The text of a step, whose base reads `text`.
void add_step(std::string& text, const Source* s, const RootText& root_text) {
  switch (s->step) {
    case Step::InstanceAttr:
      if (PyUnicode_IsIdentifier(s->operand.get()) != 1) {
        text.append(".__dict__[").append(describe(s->operand.get())).append("]");
        break;
      }
      [[fallthrough]];
    case Step::Member:
      text.append(".").append(py::text_of(s->operand.get()));
      break;
    case Step::DictOf:
      text += ".__dict__";
      break;
    case Step::Item:
      text.append("[").append(std::to_string(s->index)).append("]");
      break;
    case Step::DictItem: {
      const std::string key = is_plain_key(s->operand.get()) ? std::string() : root_text(s);
      text.append("[").append(key.empty() ? describe(s->operand.get()) : key).append("]");
      break;
    }
    case Step::CellContents:
      text += ".cell_contents";
      break;
    case Step::Size:
    case Step::Stride:
      text.append(s->step == Step::Size ? ".size(" : ".stride(").append(std::to_string(s->index)).append(")");
      break;
    case Step::Part:
    case Step::Ahead:
    case Step::ValueAhead:
    case Step::FunctionMode:
    case Step::OverArray:
      text.insert(0, "(").insert(0, step_function_name(s->step));
      text.append(", ").append(std::to_string(s->index)).append(")");
      break;
    default:
      break;
  }
}

std::string root_or_given_text(const Source* root, const RootText& root_text) {
  std::string text = root_text(root);
  return text.empty() ? root_text_of(root) : text;
}

RootText roots_from(const PyObject* globals) {
  return [globals](const Source* s) -> std::string {
    if (s->step != Step::Const || !s->operand || s->operand.get() == globals) return {};
    const std::string module = module_of_namespace(s->operand.get());
    return module.empty() ? module : "vars(" + module + ")";
  };
}

}  // namespace

const std::string& Printer::text_of(const Source* source) {
  std::vector<const Source*> path;  // down to what has a text already
  auto known = texts_.end();
  for (const Source* s = source; s != nullptr && known == texts_.end(); s = s->base) {
    known = texts_.find(s);
    if (known == texts_.end()) path.push_back(s);
  }
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    std::string text;
    if ((*at)->base == nullptr) {
      text = root_or_given_text(*at, root_text_);
    } else {
      text = known->second;
      add_step(text, *at, root_text_);
    }
    known = texts_.emplace(*at, std::move(text)).first;
  }
  return known->second;
}

Printer Printer::from(const PyObject* globals) { return Printer(roots_from(globals)); }

std::string print(const Source* source, const RootText& root_text) {
  std::vector<const Source*> path;
  for (const Source* s = source; s != nullptr; s = s->base) path.push_back(s);
  std::string text = root_or_given_text(path.back(), root_text);
  for (auto at = path.rbegin() + 1; at != path.rend(); ++at) add_step(text, *at, root_text);
  return text;
}

std::string print(const Source* source) {
  return print(source, [](const Source*) { return std::string(); });
}

std::string print_from(const Source* source, const PyObject* globals) { return print(source, roots_from(globals)); }

}  // namespace pellucid::source
