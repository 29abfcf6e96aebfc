#include "protocols/text.h"

#include <array>

#include "aten/aten.h"
#include "protocols/late_values.h"
#include "protocols/protocols.h"
#include "protocols/torch_function.h"
#include "protocols/type_expressions.h"
#include "py/cpython.h"
#include "region/arrays.h"
#include "region/enums.h"
#include "region/names.h"

namespace pellucid::protocols {

using K = Continuation::Kind;
namespace {

// The polyfills that print containers, by name.
bool prints_container(PyCodeObject* code) {
  static PyObject* const names[] = {py::interned("repr_of_sequence").release(), py::interned("repr_of_dict").release()};
  return code->co_name == names[0] || code->co_name == names[1];
}

// A container whose repr() is under way: it prints as [...] inside of itself.
bool is_being_printed(Interpreter& t, PyObject* value) {
  for (const Frame* frame = t.region.top; frame != nullptr; frame = frame->back.get()) {
    if (frame->hidden && prints_container(frame->code.get()) && frame->local(0) != nullptr &&
        t.region.shadows.original(frame->local(0)) == value)
      return true;
  }
  return false;
}

// Other exceptions print what they keep in members.
bool prints_its_arguments(PyObject* exception) {
  const auto str_of = [](PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_str; };
  const auto own = Py_TYPE(exception)->tp_str;
  return own == str_of(PyExc_BaseException) || own == str_of(PyExc_KeyError);
}

}  // namespace

namespace {

// list[int], Callable[[int], str]: of classes that nobody can give another name.
bool is_alias_of_builtins(PyObject* value) {
  if (!is_type_expression(value)) return false;
  const auto args = py::Owned<>::steal(PyObject_GetAttrString(value, "__args__"));
  if (!args || !PyTuple_CheckExact(args.get())) {
    PyErr_Clear();
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) {
    PyObject* arg = PyTuple_GET_ITEM(args.get(), i);
    if (!PyType_Check(arg) || PyType_HasFeature(reinterpret_cast<PyTypeObject*>(arg), Py_TPFLAGS_HEAPTYPE))
      return false;
  }
  return true;
}

// Whose text is its name and those of classes written in C: no object of the program is a part of it.
bool is_function_of_c(PyObject* value) {
  if (Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyWrapperDescr_Type)) return true;
  if (!PyCFunction_CheckExact(value)) return false;
  PyObject* self = PyCFunction_GET_SELF(value);
  return self == nullptr || PyModule_Check(self) || PyType_Check(self);
}

}  // namespace

Result to_text(Interpreter& t, PyObject* value, const char* how) {
  if (region::is_number(value)) {
    static PyObject* const repr = py::import_attr("builtins", "repr").release();
    PyObject* function = how[2] == 's' ? reinterpret_cast<PyObject*>(&PyUnicode_Type) : repr;
    if (auto late = late_call(t, function, Args{{&value, 1}, nullptr})) return std::move(*late);
    t.region.doing = "prints";
    value = t.region.numbers.plain(value);
  }
  value = t.region.shadows.original(value);
  t.region.doing = "prints";
  Continuation as_text(K::Str);
  as_text.number = how[2] == 'r';
  if (t.region.capture->region_ids.contains(value)) unsupported(Reason::RegionIdentity, {{"operation", "printing"}});
  const Cat cat = cat_of(value);
  auto native = [&](PyObject* v) {
    auto text = py::Owned<>::steal(how[2] == 's' ? PyObject_Str(v) : PyObject_Repr(v));
    if (!text) return t.raise_pending(py::PythonError());
    if (py::text_of(text.get()).find(" at 0x") != std::string::npos)
      t.region.capture->of_this_process = "it writes an address";
    return Result::of(std::move(text));
  };
  if (cat == Cat::Other && !t.region.provenance.is_outside(value) && is_alias_of_builtins(value)) return native(value);
  if (cat == Cat::EnumMember || (cat == Cat::Type && Py_TYPE(value) != &PyType_Type)) {
    PyObject* own = t.region.lookups.type_lookup(Py_TYPE(value), how);
    if (own != nullptr && PyFunction_Check(own) && !region::is_enums_own(own)) {
      return t.and_then(special(t, value, how, {}), std::move(as_text));
    }
  }
  if (cat == Cat::EnumMember) t.region.numbers.plain(enum_attribute(t, value, py::interned("name").get()).value.get());
  if (cat == Cat::Type) {
    for (PyObject* part : {region::names().__qualname__, region::names().__module__}) native_attribute(t, value, part);
  }
  if (is_atom(cat) || cat == Cat::Range || cat == Cat::Type) return native(value);
  const bool is_dtype = region::is_numpy_dtype(value) && region::is_builtin_dtype(value);
  if (is_dtype || is_function_of_c(value)) {
    t.region.provenance.guard_identity(value);
    return native(value);
  }
  // How a float or any repr of numpy's scalars is printed is a setting.
  if (how[2] == 's' && region::is_numpy_scalar(value) &&
      std::string_view("iub").find(region::numpy_kind(value)) != std::string_view::npos)
    return native(value);
  if (cat == Cat::Slice) {
    const Contents inside = t.region.reads.deep_touch(value);
    if (!inside.is_plain()) unsupported(Reason::UnsupportedProtocol, {{"protocol", "printing"}, {"type", "slice"}});
    return native(value);
  }
  if (cat == Cat::Tensor) unsupported(Reason::DataDependent, {{"operation", "printing a tensor"}});
  if (cat == Cat::Array) unsupported(Reason::ArrayData, {{"operation", "printing an array"}});
  if (cat == Cat::List || cat == Cat::Tuple || cat == Cat::Dict || cat == Cat::Set || cat == Cat::FrozenSet ||
      cat == Cat::Deque) {
    if (auto late = late_text_of(t, value)) return std::move(*late);
    const Contents inside = t.region.reads.deep_touch(value);
    PyObject* own =
        is_exact_builtin(Py_TYPE(value)) ? nullptr : t.region.lookups.type_lookup(Py_TYPE(value), "__repr__");
    if (!inside.tensor && !inside.user && !inside.shadowed && (own == nullptr || !PyFunction_Check(own))) {
      PyObject* contents = t.region.shadows.readable(value);  // which may be of the builtin type itself
      if (Py_TYPE(contents) != Py_TYPE(value) && cat != Cat::List && cat != Cat::Tuple && cat != Cat::Dict)
        unsupported(Reason::UnsupportedProtocol, {{"protocol", "printing"}, {"type", Py_TYPE(value)->tp_name}});
      return native(contents);
    }
  }
  if (cat == Cat::Module || cat == Cat::Code || cat == Cat::Function || cat == Cat::Builtin) {
    unsupported(Reason::UnsupportedProtocol,
                {{"protocol", "printing"}, {"type", Py_TYPE(value)->tp_name}});  // holds an address
  }
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(value), how);
  if (method != nullptr && PyFunction_Check(method)) return t.and_then(special(t, value, how, {}), std::move(as_text));
  if (how[2] == 'r') {
    if (is_being_printed(t, value)) {  // Py_ReprEnter
      const char* text = PyDict_Check(value) ? "{...}" : PyList_Check(value) ? "[...]" : "(...)";
      return Result::of(py::take(PyUnicode_FromString(text)));
    }
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value))
      return call_polyfill(t, PyDict_Check(value) ? "repr_of_dict" : "repr_of_sequence", std::span(&value, 1));
    const bool plain = method != nullptr && Py_IS_TYPE(method, &PyWrapperDescr_Type) &&
                       reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_repr == Py_TYPE(value)->tp_repr;
    if (PyExceptionInstance_Check(value) && plain) return call_polyfill(t, "repr_of_exception", std::span(&value, 1));
  }
  if (how[2] == 's') {
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value))
      return to_text(t, value, "__repr__");
    if (method != nullptr && Py_IS_TYPE(method, &PyWrapperDescr_Type) &&
        reinterpret_cast<PyDescrObject*>(method)->d_type == &PyBaseObject_Type) {
      return to_text(t, value, "__repr__");
    }
    auto* group = reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup);
    if (PyObject_TypeCheck(value, group) && Py_TYPE(value)->tp_str == group->tp_str)
      return call_polyfill(t, "str_of_group", std::span(&value, 1));
    if (PyExceptionInstance_Check(value) && (!t.region.provenance.is_outside(value) || prints_its_arguments(value))) {
      const Result args = native_attribute(t, value, region::names().args);
      const Contents inside = t.region.reads.deep_touch(args.value.get());
      if (!inside.tensor && !inside.user && !inside.shadowed) return native(value);
    }
  }
  unsupported(Reason::UnsupportedProtocol, {{"protocol", how}, {"type", Py_TYPE(value)->tp_name}});
}

namespace {

// A tensor that format() takes for the number in it.
bool is_one_number(Interpreter& t, PyObject* value) {
  static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
  return reinterpret_cast<PyObject*>(Py_TYPE(value)) == tensor && !is_answered(t, value) &&
         aten::meta_of(value).sizes.empty();
}

}  // namespace

Result format(Interpreter& t, PyObject* value, PyObject* spec) {
  if (region::is_number(value)) {
    static PyObject* const format = py::import_attr("builtins", "format").release();
    PyObject* both[] = {value, spec};
    if (auto late = late_call(t, format, Args{both, nullptr})) return std::move(*late);
    t.region.doing = "prints";
    value = t.region.numbers.plain(value);
  }
  value = t.region.shadows.original(value);
  if (t.region.capture->region_ids.contains(value)) unsupported(Reason::RegionIdentity, {{"operation", "printing"}});
  const Cat cat = cat_of(value);
  if (cat == Cat::EnumMember) {
    PyObject* own = t.region.lookups.type_lookup(Py_TYPE(value), region::names().__format__);
    if (own != nullptr && PyFunction_Check(own)) return call_polyfill(t, "format_of", std::array{value, spec});
  }
  const bool is_of_numpy = region::is_numpy_scalar(value) && PyUnicode_GET_LENGTH(spec) != 0;
  if (is_atom(cat) || is_of_numpy) {
    auto text = py::Owned<>::steal(PyObject_Format(value, spec));
    if (!text) return t.raise_pending(py::PythonError());
    return Result::of(std::move(text));
  }
  if (cat == Cat::Tensor && is_one_number(t, value)) return call_polyfill(t, "format_item", std::array{value, spec});
  if (cat == Cat::Tensor) unsupported(Reason::DataDependent, {{"operation", "printing a tensor"}});
  if (cat == Cat::Array) unsupported(Reason::ArrayData, {{"operation", "printing an array"}});
  PyObject* method = t.region.lookups.type_lookup(Py_TYPE(value), region::names().__format__);
  if (method != nullptr && PyFunction_Check(method)) return call_polyfill(t, "format_of", std::array{value, spec});
  if (method != py::type_lookup(&PyBaseObject_Type, region::names().__format__))
    unsupported(Reason::UnsupportedProtocol, {{"protocol", "__format__"}, {"type", Py_TYPE(value)->tp_name}});
  if (PyUnicode_GET_LENGTH(spec) == 0) return to_text(t, value, "__str__");
  return t.raise(PyExc_TypeError,
                 std::string("unsupported format string passed to ") + Py_TYPE(value)->tp_name + ".__format__");
}

}  // namespace pellucid::protocols
